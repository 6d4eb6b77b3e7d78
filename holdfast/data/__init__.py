"""Labelled data sets: images and audio by index."""

from holdfast.data.audio_arrays import AudioParquet, InMemoryAudio
from holdfast.data.audio_files import AudioFolder
from holdfast.data.base import DATASETS, Dataset, InMemoryImages
from holdfast.data.cifar import Cifar10, Cifar100
from holdfast.data.cifar_c import CifarC
from holdfast.data.cochlscene import CochlScene
from holdfast.data.crops import Crop, crop_for
from holdfast.data.digits import Digits
from holdfast.data.domain_folder import DomainFolder
from holdfast.data.image_folder import ImageFolder
from holdfast.data.imagenet_c import ImageNetC
from holdfast.data.keywords import Keywords
from holdfast.data.natural import NaturalDomains
from holdfast.data.natural_imagenet import ImageNetA, ImageNetD109, ImageNetR, ImageNetSketch, ImageNetV2
from holdfast.data.new_cifar import Cifar101, Cifar102
from holdfast.data.reefset import ReefSet, split_by_label
from holdfast.data.shards import Shards, read_shards
from holdfast.data.speech_commands import SpeechCommands
from holdfast.data.stored import StoredCorruptions
from holdfast.data.stored_audio import (
    StoredReefSetC,
    StoredSpeechCommandsC,
    StoredUrbanSoundC,
    StoredVocalSoundC,
)
from holdfast.data.stored_cifar_c import StoredCifarC
from holdfast.data.stored_imagenet_c import StoredImageNet3DCC, StoredImageNetC, StoredImageNetCBar
from holdfast.data.urbansound import UrbanSound8K
from holdfast.data.vocalsound import VocalSound
from holdfast.data.wilds import Camelyon17, IWildCam
from holdfast.data.wrapped import as_dataset
from holdfast.registry import import_entries

__all__ = [
    "DATASETS",
    "AudioFolder",
    "AudioParquet",
    "Camelyon17",
    "Cifar10",
    "Cifar100",
    "Cifar101",
    "Cifar102",
    "CifarC",
    "CochlScene",
    "Crop",
    "Dataset",
    "Digits",
    "DomainFolder",
    "IWildCam",
    "ImageFolder",
    "ImageNetA",
    "ImageNetC",
    "ImageNetD109",
    "ImageNetR",
    "ImageNetSketch",
    "ImageNetV2",
    "InMemoryAudio",
    "InMemoryImages",
    "Keywords",
    "NaturalDomains",
    "ReefSet",
    "Shards",
    "SpeechCommands",
    "StoredCifarC",
    "StoredCorruptions",
    "StoredImageNet3DCC",
    "StoredImageNetC",
    "StoredImageNetCBar",
    "StoredReefSetC",
    "StoredSpeechCommandsC",
    "StoredUrbanSoundC",
    "StoredVocalSoundC",
    "UrbanSound8K",
    "VocalSound",
    "as_dataset",
    "crop_for",
    "read_shards",
    "split_by_label",
]

import_entries(__name__, skip=["tensors"])  # the one module here that imports torch
