"""Any torch classifier, wrapped once, and the reference networks."""

from holdfast.models.amaut import AMAUT_VERSIONS, AMAuT, AMAuTVersion, amaut
from holdfast.models.base import MODELS, WEIGHTS, load_weights, seeded_weights
from holdfast.models.cifar_resnet import CifarResNet, cifar_resnet
from holdfast.models.classifier import Classifier, weights_digest
from holdfast.models.imported import imported
from holdfast.models.mel import LogMel
from holdfast.models.normalised import Normalised
from holdfast.models.resnet import ResNet
from holdfast.models.small import digits_resnet, digits_resnet_gn, digits_vit, keywords_amaut
from holdfast.models.tiny import tiny_amaut, tiny_resnet, tiny_vit
from holdfast.models.torchvision_zoo import torchvision
from holdfast.models.vit import ViT

__all__ = [
    "AMAUT_VERSIONS",
    "MODELS",
    "WEIGHTS",
    "AMAuT",
    "AMAuTVersion",
    "CifarResNet",
    "Classifier",
    "LogMel",
    "Normalised",
    "ResNet",
    "ViT",
    "amaut",
    "cifar_resnet",
    "digits_resnet",
    "digits_resnet_gn",
    "digits_vit",
    "imported",
    "keywords_amaut",
    "load_weights",
    "seeded_weights",
    "tiny_amaut",
    "tiny_resnet",
    "tiny_vit",
    "torchvision",
    "weights_digest",
]
