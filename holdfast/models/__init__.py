"""Any torch classifier, wrapped once, and the reference networks."""

from holdfast.models.amaut import AMAUT_VERSIONS, AMAuT, AMAuTVersion, amaut
from holdfast.models.base import MODELS, WEIGHTS, load, load_weights, seeded_weights
from holdfast.models.cifar_resnet import CifarResNet, cifar_resnet
from holdfast.models.cifar_resnet18 import CifarResNet18, cifar_resnet18
from holdfast.models.cifar_resnext import CifarResNeXt, cifar_resnext
from holdfast.models.class_subset import MaskedClasses, class_subset, with_classes
from holdfast.models.classifier import Classifier, weights_digest
from holdfast.models.conmix import CONMIX_VERSIONS, CoNMix, CoNMixVersion, conmix
from holdfast.models.efficientnet_lite import efficientnet_lite0, efficientnet_lite1, efficientnet_lite2
from holdfast.models.hubert import HUBERT_VERSIONS, HuBERT
from holdfast.models.hugging_face import (
    ClipClassifier,
    HuggingFaceAudio,
    clip,
    hubert,
    hugging_face,
    hugging_face_audio,
    small_hubert,
)
from holdfast.models.imported import imported, local_file, torch_hub
from holdfast.models.mel import LogMel
from holdfast.models.normalised import Normalised
from holdfast.models.preprocessing import Preprocessing, preprocessing_of
from holdfast.models.resnet import ResNet
from holdfast.models.robustbench_zoo import robustbench
from holdfast.models.small import digits_resnet, digits_resnet_gn, digits_vit, keywords_amaut, small_amaut, small_conmix
from holdfast.models.timm_zoo import timm
from holdfast.models.tiny import tiny_amaut, tiny_resnet, tiny_vit
from holdfast.models.torchvision_zoo import torchvision
from holdfast.models.vit import ViT
from holdfast.models.wide_resnet import WideResNet, wide_resnet
from holdfast.registry import import_entries

__all__ = [
    "AMAUT_VERSIONS",
    "CONMIX_VERSIONS",
    "HUBERT_VERSIONS",
    "MODELS",
    "WEIGHTS",
    "AMAuT",
    "AMAuTVersion",
    "CifarResNeXt",
    "CifarResNet",
    "CifarResNet18",
    "Classifier",
    "ClipClassifier",
    "CoNMix",
    "CoNMixVersion",
    "HuBERT",
    "HuggingFaceAudio",
    "LogMel",
    "MaskedClasses",
    "Normalised",
    "Preprocessing",
    "ResNet",
    "ViT",
    "WideResNet",
    "amaut",
    "cifar_resnet",
    "cifar_resnet18",
    "cifar_resnext",
    "class_subset",
    "clip",
    "conmix",
    "digits_resnet",
    "digits_resnet_gn",
    "digits_vit",
    "efficientnet_lite0",
    "efficientnet_lite1",
    "efficientnet_lite2",
    "hubert",
    "hugging_face",
    "hugging_face_audio",
    "imported",
    "keywords_amaut",
    "load",
    "load_weights",
    "local_file",
    "preprocessing_of",
    "robustbench",
    "seeded_weights",
    "small_amaut",
    "small_conmix",
    "small_hubert",
    "timm",
    "tiny_amaut",
    "tiny_resnet",
    "tiny_vit",
    "torch_hub",
    "torchvision",
    "weights_digest",
    "wide_resnet",
    "with_classes",
]

import_entries(__name__)
