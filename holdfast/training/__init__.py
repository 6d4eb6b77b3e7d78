"""Training of networks on images and sounds: the reference networks, and AMAuT as published."""

from holdfast.training.fit import TrainResult, accuracy, fit, save_weights, train
from holdfast.training.recipes import TRAINING_RECIPES, TrainingRecipe, training_recipe
from holdfast.training.views import SoundView, moved

__all__ = [
    "TRAINING_RECIPES",
    "SoundView",
    "TrainResult",
    "TrainingRecipe",
    "accuracy",
    "fit",
    "moved",
    "save_weights",
    "train",
    "training_recipe",
]
