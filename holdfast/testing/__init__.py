"""Contracts of every kind of entry, as public functions that third parties can run on their own.

>>> import torch
>>> from holdfast.models.tiny import tiny_resnet
>>> batches = torch.rand(3, 8, 3, 32, 32, generator=torch.Generator().manual_seed(0))
>>> check_method("tent", tiny_resnet(), list(batches))  # doctest: +ELLIPSIS
holds: ...
"""

from holdfast.testing.corruptions import check_corruption
from holdfast.testing.datasets import check_dataset
from holdfast.testing.estimators import check_estimator
from holdfast.testing.methods import METHOD_CHECKS, check_method
from holdfast.testing.models import check_model
from holdfast.testing.recoveries import check_recovery
from holdfast.testing.streams import STREAM_CHECKS, check_stream

__all__ = [
    "METHOD_CHECKS",
    "STREAM_CHECKS",
    "check_corruption",
    "check_dataset",
    "check_estimator",
    "check_method",
    "check_model",
    "check_recovery",
    "check_stream",
]
