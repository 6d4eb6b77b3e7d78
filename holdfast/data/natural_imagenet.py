"""Natural variants of ImageNet: V2, Rendition, Adversarial, Sketch and D109, for networks of its 1000 classes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from holdfast.data.base import DATASETS
from holdfast.data.image_folder import ImageFiles, class_folders, image_files, labelled_files
from holdfast.data.imagenet_classes import IMAGENET_A, IMAGENET_D109, IMAGENET_R, imagenet_wnids
from holdfast.data.natural import DomainImages, ImageRecord, chosen_domains
from holdfast.data.on_disk import folder_at

Variant = Literal["matched-frequency", "threshold-0.7", "top-images"]
# Folders of DomainNet that ImageNet-D joins with another, because ImageNet does not tell them apart.
JOINED = {"hot_tub": "bathtub", "couch": "bed", "ceiling_fan": "fan"}


class _ByWnid(ImageFiles):
    """Images in one folder per class, named by its WordNet identifier.

    `class_indices` are the outputs of an ImageNet network that the classes are; the others are masked.
    """

    set_name: ClassVar[str]
    archive: ClassVar[str]
    unpacked: ClassVar[str]  # the folder that the archive unpacks to
    class_indices: Sequence[int] = range(1000)

    def __init__(self, *, folder: str | Path, **pixels: Any) -> None:
        remedy = f"download {self.archive} and unpack it there"
        folder = folder_at(folder, remedy, self.unpacked)
        wnids = [imagenet_wnids()[index] for index in self.class_indices]
        files, labels = labelled_files(folder, {wnid: label for label, wnid in enumerate(wnids)}, remedy)
        super().__init__(self.set_name, folder, files, labels, wnids, **pixels)


@DATASETS.register("imagenet_r")
class ImageNetR(_ByWnid):
    """ImageNet-R: 30 000 drawings, toys, sculptures and other renditions of 200 classes of ImageNet.

    `folder` holds `<wnid>/<image>`, or `imagenet-r`, which the archive unpacks to. The other 800 outputs of an ImageNet
    network are masked.
    """

    citation = "Hendrycks et al., ICCV 2021"
    set_name = "imagenet_r"
    archive = "https://people.eecs.berkeley.edu/~hendrycks/imagenet-r.tar"
    unpacked = "imagenet-r"
    class_indices = IMAGENET_R


@DATASETS.register("imagenet_a")
class ImageNetA(_ByWnid):
    """ImageNet-A: 7 500 photos of 200 classes of ImageNet that a ResNet-50 gets wrong, in the layout of `imagenet_r`.

    The other 800 outputs of an ImageNet network are masked.
    """

    citation = "Hendrycks et al., CVPR 2021"
    set_name = "imagenet_a"
    archive = "https://people.eecs.berkeley.edu/~hendrycks/imagenet-a.tar"
    unpacked = "imagenet-a"
    class_indices = IMAGENET_A


@DATASETS.register("imagenet_sketch")
class ImageNetSketch(_ByWnid):
    """ImageNet-Sketch: 50 889 black and white drawings of the 1000 classes, in `<wnid>/<image>` or `sketch/…`."""

    citation = "Wang et al., NeurIPS 2019"
    set_name = "imagenet_sketch"
    archive = "ImageNet-Sketch, https://github.com/HaohanWang/ImageNet-Sketch,"
    unpacked = "sketch"


@DATASETS.register("imagenet_v2")
class ImageNetV2(ImageFiles):
    """ImageNet-V2: 10 000 new photos of the 1000 classes, collected as ImageNet was.

    `folder` holds `imagenetv2-<variant>-format-val/<class index>/<image>` or the class folders themselves.
    """

    citation = "Recht et al., ICML 2019"
    class_indices: Sequence[int] = range(1000)

    def __init__(self, *, folder: str | Path, variant: Variant = "matched-frequency", **pixels: Any) -> None:
        if variant not in get_args(Variant):
            raise ValueError(f"variant must be one of {', '.join(get_args(Variant))}, got {variant!r}")
        archive = f"imagenetv2-{variant.replace('-0.7', '0.7')}"
        remedy = f"download {archive}.tar.gz, https://huggingface.co/datasets/vaishaal/ImageNetV2, and unpack it there"
        folder = folder_at(folder, remedy, f"{archive}-format-val")
        files, labels = labelled_files(folder, {str(index): index for index in range(1000)}, remedy)
        super().__init__(f"imagenet_v2/{variant}", folder, files, labels, imagenet_wnids(), **pixels)


@DATASETS.register("imagenet_d109")
class ImageNetD109(DomainImages):
    """ImageNet-D109: the images of DomainNet in 109 classes that are one class of ImageNet each; six natural domains.

    `folder` holds `<domain>/<class>/<image>` as DomainNet does; folders of other classes are left out. The other 891
    outputs of an ImageNet network are masked. Published results use clipart, infograph, painting, real and sketch.
    """

    citation = "Marsden et al., WACV 2024; Rusak et al., arXiv 2104.12928; Peng et al., ICCV 2019"
    class_indices: Sequence[int] = tuple(IMAGENET_D109.values())

    def __init__(self, *, folder: str | Path, domains: Sequence[str] | None = None, **pixels: Any) -> None:
        remedy = "download DomainNet (cleaned version), http://ai.bu.edu/M3SDA/, and unpack it there"
        folder = folder_at(folder, remedy)
        label_of = {name: label for label, name in enumerate(IMAGENET_D109)}
        label_of |= {name: label_of[whole] for name, whole in JOINED.items()}
        records: list[ImageRecord] = []
        for domain in chosen_domains(class_folders(folder), domains):
            known = [name for name in class_folders(folder / domain) if name in label_of]
            records += ((domain, file, label_of[n]) for n in known for file in image_files(folder, f"{domain}/{n}"))
        if not records:
            raise ValueError(f"{folder} has no images in <domain>/<class> folders of DomainNet; {remedy}")
        super().__init__("imagenet_d109", folder, records, tuple(IMAGENET_D109), **pixels)
