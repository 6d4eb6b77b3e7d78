"""Where the data and weights of published suites come from: address, size and checksum where they are known."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from holdfast.options.yaml_text import load_yaml


@dataclass(frozen=True)
class Archive:
    """One file of a data set that is free to download and redistribute."""

    address: str
    checksum: str  # algorithm:hex digest

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.address.rpartition("/")[2].partition("?")[0]


@dataclass(frozen=True)
class Supply:
    """Where to get something; what has a free licence and known checksums comes with its archives."""

    address: str
    size: str = ""
    checksum: str = ""  # of the archive
    licence: str = ""
    archives: tuple[Archive, ...] = ()  # that `holdfast prepare --fetch` downloads
    samples: int | None = None  # of a test set, in each of its domains


def _source(archives: Mapping[str, str] | None = None, **known: Any) -> Supply:
    """Return an entry of `sources.yaml`, whose archives are checksums by address."""
    free = tuple(Archive(address, checksum) for address, checksum in (archives or {}).items())
    if len(free) == 1:
        known["checksum"] = free[0].checksum.replace(":", " ")
    return Supply(archives=free, **known)


_TEXT = (resources.files("holdfast.options") / "sources.yaml").read_text(encoding="utf-8")
SOURCES = {name: _source(**entry) for name, entry in load_yaml(_TEXT).items()}

_CLEAN = {"us8": "urbansound8k", "sc2": "speech_commands", "vs": "vocalsound", "rs": "reefset"}
# Of data sets that suites call by another name.
FULL_NAMES = _CLEAN | {f"{short}_c": f"stored_{full}_c" for short, full in _CLEAN.items()}


def _trained(data: str, model: str, out: str, *options: str) -> Supply:
    return Supply(shlex.join(["holdfast", "train", data, "--model", model, *options, "--out", out]))


def _network_of_dhauds(network: str, version: str, data: str, folder: str, *options: str, more: str = "") -> Supply:
    """Return the command that trains a network of DHAuDS by its published procedure."""
    model = f"{{name: {network}, version: {version}{more}}}"
    samples = f"{{name: {data}, folder: {folder}}}"
    out = f"data/weights/{network}-{version}.safetensors"
    return _trained(samples, model, out, "--procedure", f"{network}-{data}", *options)


def _then(first: Supply, second: Supply, note: str) -> Supply:
    return Supply(f"{first.address} && {second.address}", note)


_SC2 = ("sc2", "speech_commands", "data/speech_commands_v0.02")
_VS = ("vs", "vocalsound", "data/vs_release_16k")
_US8 = ("us8", "urbansound8k", "data/UrbanSound8K")
_RS = ("rs", "reefset", "data/ReefSet_v1.0")
_BACKBONE = ", pretrained: facebook/hubert-base-ls960"
# By file name, or by model.
WEIGHTS = {
    "cifar10.safetensors": _trained("cifar10", "cifar_resnet20", "data/cifar10.safetensors"),
    **{f"amaut-{given[0]}.safetensors": _network_of_dhauds("amaut", *given) for given in (_SC2, _VS, _RS)},
    "amaut-us8.safetensors": _then(
        _network_of_dhauds("amaut", "cochlscene", "cochlscene", "data/CochlScene"),
        _network_of_dhauds("amaut", *_US8, "--start", "data/weights/amaut-cochlscene.safetensors"),
        f"starts from CochlScene, {SOURCES['cochlscene'].address}",
    ),
    **{
        f"hubert-{given[0]}.safetensors": _network_of_dhauds("hubert", *given, more=_BACKBONE)
        for given in (_SC2, _VS, _RS, (*_US8[:2], f"{_US8[2]}, sample_rate: 16000"))
    },
    **{f"conmix-{given[0]}.safetensors": _network_of_dhauds("conmix", *given) for given in (_SC2, _RS)},
    **{
        f"{file}.safetensors": Supply(f"train {network} on the domain {domain} of {data}")
        for file, network, domain, data in (
            ("resnet50-pacs-photo", "timm:resnet50", "photo", "PACS"),
            ("resnet50-officehome-real", "timm:resnet50", "Real World", "OfficeHome"),
            ("resnet50-domainnet126-real", "timm:resnet50", "real", "DomainNet-126"),
            ("resnet101-visda-train", "timm:resnet101", "train", "VisDA"),
        )
    },
    "densenet121-camelyon17.safetensors": Supply("train timm:densenet121 on the split train of camelyon17"),
    "resnet50-iwildcam.safetensors": Supply("train timm:resnet50 on the split train of iwildcam"),
    "Standard.pt": Supply("RobustBench, cifar10/corruptions/Standard", "146 MB"),
    "Hendrycks2020AugMix_ResNeXt.pt": Supply("RobustBench, cifar100/corruptions/Hendrycks2020AugMix_ResNeXt", "28 MB"),
    "cifar_resnet18": Supply("train it with https://github.com/taeckyung/AETTA (train_src.sh)", "45 MB"),
    "augmix.pth.tar": Supply("https://github.com/google-research/augmix", "100 MB"),
    "deepaugment_and_augmix.pth.tar": Supply("https://github.com/hendrycks/imagenet-r", "100 MB"),
    "resnext101_augmix_and_deepaugment.pth.tar": Supply("https://github.com/hendrycks/imagenet-r", "350 MB"),
}
PACKAGES = {"torchvision": "torchvision", "timm": "timm"} | dict.fromkeys(("hubert", "hf", "clip"), "transformers")
