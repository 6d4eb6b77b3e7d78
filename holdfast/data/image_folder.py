"""Image files, decoded on demand: in one folder per class, or listed with their labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from holdfast.data.base import DATASETS
from holdfast.data.on_disk import digest_of, folder_at, pieces_of
from holdfast.decode.image_files import decode_image, image_size, resize_shorter_side
from holdfast.options.problems import check
from holdfast.options.ranges import Count
from holdfast.records import InputSpec

SUFFIXES = {".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
DIGEST_BYTES = 4096  # of each file
HEADERS = 1000  # files whose sizes are compared
Pixels = Count | Literal["auto"] | None


class ImageFiles:
    """Image files of a folder with their labels; what data sets of files have in common.

    The shorter side is resized to `resize` pixels, then the central `crop` × `crop` is cut out; None omits a step.
    "auto" takes images that all have one size as they are, and resizes others to 256 and crops them to 224.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        files: Sequence[str],
        labels: Sequence[int] | NDArray[np.int64],
        class_names: Sequence[str],
        *,
        resize: Pixels = 256,
        crop: Pixels = 224,
        cache_bytes: int = 2**28,
    ) -> None:
        check(ImageFiles, {"resize": resize, "crop": crop}, owner=f"data set {name!r}")
        self.name = name  # the digest identifies the folder; its path is not part of the protocol
        self.folder, self.cache_bytes = folder, cache_bytes
        self.files = tuple(files)  # relative to the folder
        self.labels = np.asarray(labels, np.int64)
        self.class_names: Sequence[str] = tuple(class_names)
        several = "auto" in (resize, crop) and self._sizes_differ()
        self.resize = (256 if several else None) if resize == "auto" else resize
        self.crop = (224 if several else None) if crop == "auto" else crop
        width, height = self._open(folder / self.files[0]).size if self.crop is None else (self.crop, self.crop)
        self.input_spec = InputSpec("image", (3, height, width))
        self._keep_decoded()
        self._decoded(0)  # report a crop that does not fit now, not in the middle of a run

    @cached_property
    def digest(self) -> str:
        """Hex digest of resize, crop and class names, and of every file's name, size and last 4096 bytes.

        Compressed images differ at the end of their files (they begin with headers, and a PNG ends with a checksum of
        its pixels); smaller files are covered whole.
        """
        stated = repr((self.resize, self.crop, self.class_names)).encode()
        return digest_of(chain([stated], pieces_of(self.folder, self.files, DIGEST_BYTES)))

    def inputs(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return the images at these indices, decoded unless they are in the cache."""
        _, height, width = self.input_spec.shape
        images = np.empty((len(indices), height, width, 3), np.uint8)
        for row, index in enumerate(indices):
            images[row] = self._decoded(int(index))
        return images

    def original(self, index: int) -> NDArray[np.uint8]:
        """Return one image in the size of its file, for random crops."""
        return np.asarray(decode_image(self.folder / self.files[index]))

    def __getstate__(self) -> dict[str, Any]:
        # Another process gets the paths; the cache of decoded images stays here.
        return {name: value for name, value in vars(self).items() if name != "_decoded"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._keep_decoded()

    def _keep_decoded(self) -> None:
        # All images have one shape, so a limit in bytes is a limit in images.
        self._decoded = lru_cache(self.cache_bytes // int(np.prod(self.input_spec.shape)))(self._decode)

    def _decode(self, index: int) -> NDArray[np.uint8]:
        return self.pixels(self.folder / self.files[index])

    def pixels(self, path: Path) -> NDArray[np.uint8]:
        """Return an image file, resized and cropped, if it then has the size of the others."""
        image = self._open(path)
        _, height, width = self.input_spec.shape
        if image.size != (width, height):
            raise ValueError(
                f"{path} has {image.width}×{image.height} pixels instead of {width}×{height}; pass a crop, and a "
                "resize that is not smaller"
            )
        return np.asarray(image)

    def _sizes_differ(self) -> bool:
        """Return whether the images have several sizes, by the headers of at most `HEADERS` files."""
        every = -(-len(self.files) // HEADERS)
        sizes = (image_size(self.folder / name) for name in self.files[::every])
        first = next(sizes)
        return any(size != first for size in sizes)

    def _open(self, path: Path) -> Image.Image:
        image = decode_image(path)
        if self.resize is not None:
            image = resize_shorter_side(image, self.resize)
        return image if self.crop is None else centre_crop(image, self.crop)


@DATASETS.register("image_folder")
class ImageFolder(ImageFiles):
    """Images in one folder per class, sorted by folder name, as in ImageNet's validation set.

    The shorter side is resized to `resize` pixels, then the central `crop` × `crop` is cut out; None omits a step. By
    default ("auto") images that all have one size are taken as they are, and images of several sizes are resized to 256
    and cropped to 224, as is usual for ImageNet. Images are upright by their EXIF orientation. At most `cache_bytes` of
    decoded images are kept.
    """

    citation = "Russakovsky et al., IJCV 2015"

    def __init__(
        self,
        *,
        folder: str | Path,
        resize: Pixels = "auto",
        crop: Pixels = "auto",
        cache_bytes: int = 2**28,
    ) -> None:
        check(ImageFolder, {"folder": folder, "resize": resize, "crop": crop}, owner="data set 'image_folder'")
        folder = folder_at(folder, "pass a folder that holds one folder of images per class")
        names = class_folders(folder)
        label_of = {name: label for label, name in enumerate(names)}
        files, labels = labelled_files(folder, label_of, "make one folder per class")
        super().__init__(
            "image_folder", folder, files, labels, names, resize=resize, crop=crop, cache_bytes=cache_bytes
        )


def class_folders(folder: Path) -> tuple[str, ...]:
    """Return the names of the folders in a folder, sorted; hidden ones are left out."""
    return tuple(sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and entry.name[0] != "."))


def image_files(folder: Path, class_name: str) -> list[str]:
    """Return the image files of one class, subfolders included, in an order that does not depend on the machine."""
    paths = (path for path in (folder / class_name).rglob("*") if path.suffix.lower() in SUFFIXES)
    return sorted(path.relative_to(folder).as_posix() for path in paths if path.name[0] != ".")


def labelled_files(folder: Path, label_of: Mapping[str, int], remedy: str) -> tuple[list[str], NDArray[np.int64]]:
    """Return the files of all class folders with their labels; a folder that is no class is refused."""
    there = class_folders(folder)
    for name in there:
        if name not in label_of:
            raise ValueError(f"{folder} holds {name!r}, which is no class of this data set; {remedy}")
    by_class = {name: image_files(folder, name) for name in there}
    files = [file for of_class in by_class.values() for file in of_class]
    if not files:
        raise ValueError(f"{folder} has no class folders with images; {remedy}")
    return files, np.repeat([label_of[name] for name in there], [len(of_class) for of_class in by_class.values()])


def centre_crop(image: Image.Image, pixels: int) -> Image.Image:
    """Return the central square, offsets rounded half to even; a side with fewer pixels is not cropped.

    >>> centre_crop(Image.new("RGB", (341, 256)), 224).size
    (224, 224)
    """
    width, height = (min(side, pixels) for side in image.size)
    left, top = round((image.width - width) / 2), round((image.height - height) / 2)
    return image.crop((left, top, left + width, top + height))
