"""Where the data and weights of published suites come from: address, size and checksum where they are known."""

from __future__ import annotations

import shlex
from dataclasses import dataclass


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
class Source:
    """Where to get something; what has a free licence and known checksums comes with its archives."""

    address: str
    size: str = ""
    checksum: str = ""  # of the archive
    licence: str = ""
    archives: tuple[Archive, ...] = ()  # that `holdfast prepare --fetch` downloads


def _zenodo(record: int, size: str, /, **checksums: str) -> Source:
    """Return a record of Zenodo under CC BY 4.0, with the MD5 of each of its tar archives."""
    page = f"https://zenodo.org/records/{record}"
    archives = [
        Archive(f"{page}/files/{name.replace('_', '-')}.tar", f"md5:{digest}") for name, digest in checksums.items()
    ]
    only = f"md5 {archives[0].checksum[4:]}" if len(archives) == 1 else ""
    address = page if len(archives) == 1 else f"{page}, all {len(archives)} archives"
    return Source(address, size, only, "CC BY 4.0", tuple(archives))


def _published(address: str, size: str, md5: str, licence: str) -> Source:
    return Source(address, size, f"md5 {md5}", licence, (Archive(address, f"md5:{md5}"),))


CIFAR10 = Source(
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "162 MB", "md5 c32a1d4ab5d03f1284b67883e8d87530"
)
CIFAR100 = Source(
    "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz", "161 MB", "md5 03b5dce01913d631647c71ecec9e9cb8"
)
CIFAR10_C = _zenodo(2535967, "2.9 GB", CIFAR_10_C="56bf5dcef84df0e2308c6dcbcbbd8499")
CIFAR100_C = _zenodo(3555552, "2.9 GB", CIFAR_100_C="11f0ed0f1191edbf9fa23466ae6021d3")
IMAGENET = Source("ILSVRC 2012 from https://image-net.org, one folder per class", "6.7 GB (val), 148 GB (train)")
IMAGENET_C = _zenodo(
    2235448,
    "75 GB",
    blur="2d8e81fdd8e07fef67b9334fa635e45c",
    digital="89157860d7b10d5797849337ca2e5c03",
    extra="d492dfba5fc162d8ec2c3cd8ee672984",
    noise="e80562d7f6c3f8834afb1ecf27252745",
    weather="33ffea4db4d93fe4a428c40a6ce0c25d",
)
IMAGENET_R = _published(
    "https://people.eecs.berkeley.edu/~hendrycks/imagenet-r.tar", "2.1 GB", "a61312130a589d0ca1a8fca1f2bd3337", "MIT"
)
IMAGENET_A = _published(
    "https://people.eecs.berkeley.edu/~hendrycks/imagenet-a.tar", "0.7 GB", "c3e55429088dc681f30d81f4726b6595", "MIT"
)
SPEECH_COMMANDS = Source(
    "http://download.tensorflow.org/data/speech_commands_v0.02.tar.gz",
    "2.3 GB",
    licence="CC BY 4.0",
    archives=(
        Archive(
            "http://download.tensorflow.org/data/speech_commands_v0.02.tar.gz",
            "sha256:af14739ee7dc311471de98f5f9d2c9191b18aedfe957f4a6ff791c709868ff58",
        ),
    ),
)
DOMAINNET = Source("http://ai.bu.edu/M3SDA/, cleaned version, one folder per domain", "18 GB")
VOCALSOUND = Source("vs_release_16k.zip from https://github.com/YuanGongND/vocalsound", "1.7 GB")
URBANSOUND = Source("https://zenodo.org/records/1203745", "6 GB")
REEFSET = Source("https://zenodo.org/records/11071202")
DHAUDS = Source("the Google Drive folder linked from https://github.com/Andy-Shao/DHAuDS")
DEMAND = Source("https://zenodo.org/records/1227121, the 16 kHz archives")

FULL_NAMES = {  # of data sets that suites call by another
    "us8": "urbansound8k",
    "sc2": "speech_commands",
    "vs": "vocalsound",
    "rs": "reefset",
    "us8_c": "stored_urbansound8k_c",
    "sc2_c": "stored_speech_commands_c",
    "vs_c": "stored_vocalsound_c",
    "rs_c": "stored_reefset_c",
}
# By data set, by data set and folder name, or by noise family.
SOURCES = {
    "cifar10": CIFAR10,
    "cifar100": CIFAR100,
    "stored_cifar_c CIFAR-10-C": CIFAR10_C,
    "stored_cifar_c CIFAR-100-C": CIFAR100_C,
    "stored_cifar_c": CIFAR10_C,
    "image_folder": IMAGENET,
    "ccc_shards": Source("the server linked from https://github.com/oripress/CCC", "about 100 GB for each run"),
    "stored_imagenet_c": IMAGENET_C,
    "stored_imagenet_c_bar": Source("https://github.com/facebookresearch/augmentation-corruption"),
    "stored_imagenet_3dcc": Source("https://github.com/EPFL-VILAB/3DCommonCorruptions"),
    "imagenet_a": IMAGENET_A,
    "imagenet_d109": DOMAINNET,
    "imagenet_r": IMAGENET_R,
    "imagenet_sketch": Source("https://github.com/HaohanWang/ImageNet-Sketch, one folder per class", "7.6 GB"),
    "imagenet_v2": Source(
        "https://huggingface.co/datasets/vaishaal/ImageNetV2, imagenetv2-matched-frequency.tar.gz", "1.2 GB"
    ),
    "domain_folder PACS": Source("https://github.com/facebookresearch/DomainBed, PACS", "0.2 GB"),
    "domain_folder OfficeHome": Source("https://www.hemanthdv.org/officeHomeDataset.html", "1.1 GB"),
    "domain_folder DomainNet-126": Source(
        f"{DOMAINNET.address}, with the lists of https://github.com/DianCh/AdaContrast", DOMAINNET.size
    ),
    "domain_folder VisDA": Source("https://github.com/VisionLearningGroup/taskcv-2017-public", "7.5 GB"),
    "domain_folder": Source("one folder per domain, with one folder per class in each"),
    "cifar10_1": Source("https://github.com/modestyachts/CIFAR-10.1, folder datasets", "12 MB"),
    "cifar10_2": Source("https://github.com/modestyachts/cifar-10.2, cifar102_test.npz", "6 MB"),
    "camelyon17": Source("https://wilds.stanford.edu, camelyon17_v1.0", "10 GB", licence="CC0"),
    "iwildcam": Source("https://wilds.stanford.edu, iwildcam_v2.0", "11 GB", licence="CDLA-Permissive 1.0"),
    "speech_commands": SPEECH_COMMANDS,
    "vocalsound": VOCALSOUND,
    "urbansound8k": URBANSOUND,
    "reefset": REEFSET,
    "cochlscene": Source("https://zenodo.org/records/7080122"),
    "stored_speech_commands_c": DHAUDS,
    "stored_vocalsound_c": DHAUDS,
    "stored_urbansound8k_c": DHAUDS,
    "stored_reefset_c": DHAUDS,
    "stored_speech_commands_c clean": SPEECH_COMMANDS,
    "stored_vocalsound_c clean": VOCALSOUND,
    "stored_urbansound8k_c clean": URBANSOUND,
    "stored_reefset_c clean": REEFSET,
    "ENQ": Source("QUT-NOISE, https://research.qut.edu.au/saivt/databases/qut-noise-databases-and-protocols/"),
    "END1": DEMAND,
    "END2": DEMAND,
    "ENSC": SPEECH_COMMANDS,
}


def _trained(data: str, model: str, out: str, *options: str) -> Source:
    return Source(shlex.join(["holdfast", "train", data, "--model", model, *options, "--out", out]))


def _network_of_dhauds(network: str, version: str, data: str, folder: str, *options: str, more: str = "") -> Source:
    """Return the command that trains a network of DHAuDS by its published procedure."""
    model = f"{{name: {network}, version: {version}{more}}}"
    samples = f"{{name: {data}, folder: {folder}}}"
    out = f"data/weights/{network}-{version}.safetensors"
    return _trained(samples, model, out, "--procedure", f"{network}-{data}", *options)


def _then(first: Source, second: Source, note: str) -> Source:
    return Source(f"{first.address} && {second.address}", note)


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
        f"{file}.safetensors": Source(f"train {network} on the domain {domain} of {data}")
        for file, network, domain, data in (
            ("resnet50-pacs-photo", "timm:resnet50", "photo", "PACS"),
            ("resnet50-officehome-real", "timm:resnet50", "Real World", "OfficeHome"),
            ("resnet50-domainnet126-real", "timm:resnet50", "real", "DomainNet-126"),
            ("resnet101-visda-train", "timm:resnet101", "train", "VisDA"),
        )
    },
    "densenet121-camelyon17.safetensors": Source("train timm:densenet121 on the split train of camelyon17"),
    "resnet50-iwildcam.safetensors": Source("train timm:resnet50 on the split train of iwildcam"),
    "Standard.pt": Source("RobustBench, cifar10/corruptions/Standard", "146 MB"),
    "Hendrycks2020AugMix_ResNeXt.pt": Source("RobustBench, cifar100/corruptions/Hendrycks2020AugMix_ResNeXt", "28 MB"),
    "cifar_resnet18": Source("train it with https://github.com/taeckyung/AETTA (train_src.sh)", "45 MB"),
    "augmix.pth.tar": Source("https://github.com/google-research/augmix", "100 MB"),
    "deepaugment_and_augmix.pth.tar": Source("https://github.com/hendrycks/imagenet-r", "100 MB"),
    "resnext101_augmix_and_deepaugment.pth.tar": Source("https://github.com/hendrycks/imagenet-r", "350 MB"),
}
# Samples of test sets, in each of their domains.
SIZES = {
    "stored_cifar_c": 10_000,
    "stored_imagenet_c": 50_000,
    "stored_imagenet_3dcc": 50_000,
    "imagenet_a": 7_500,
    "imagenet_r": 30_000,
    "imagenet_sketch": 50_889,
    "imagenet_v2": 10_000,
    "cifar10_1": 2_000,
    "cifar10_2": 2_000,
    "stored_speech_commands_c": 11_005,
    "stored_vocalsound_c": 3_591,
    "stored_urbansound8k_c": 2_459,
    "stored_reefset_c": 17_137,
    "speech_commands": 11_005,
    "vocalsound": 3_591,
    "urbansound8k": 2_459,
    "reefset": 17_137,
    "cochlscene": 7_687,
}
PACKAGES = {
    "torchvision": "torchvision",
    "timm": "timm",
    "hubert": "transformers",
    "hf": "transformers",
    "clip": "transformers",
}
