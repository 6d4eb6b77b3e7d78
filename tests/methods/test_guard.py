"""Parts of the guard that its promise depends on."""

from __future__ import annotations

import torch

from holdfast.anchor import Opinion
from holdfast.evidence import LossAlarm
from holdfast.methods.guard import Judged


def test_rounding_of_probabilities_does_not_stop_the_alarm() -> None:
    above, zero = torch.nextafter(torch.ones(3), torch.full((3,), 2.0)), torch.zeros(3)
    uniform = torch.full((3, 2), 0.5)
    for source, adapted in ((above, zero), (zero, above)):
        judged = Judged(zero, Opinion(uniform, uniform, shift=0.0), source=source, adapted=adapted)
        LossAlarm(level=0.001).observe(judged.losses.tolist())  # refuses losses outside [-1, 1]
