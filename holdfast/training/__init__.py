"""Train networks on images and audio: the reference networks, and those of DHAuDS as published."""

from holdfast.training.augmentation import AudioView, flipped_crops, moved
from holdfast.training.fit import TrainResult, accuracy, fit, save_weights, train
from holdfast.training.procedures import PROCEDURES, Procedure, procedure_of

__all__ = [
    "PROCEDURES",
    "AudioView",
    "Procedure",
    "TrainResult",
    "accuracy",
    "fit",
    "flipped_crops",
    "moved",
    "procedure_of",
    "save_weights",
    "train",
]
