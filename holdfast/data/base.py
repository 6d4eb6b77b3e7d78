"""What a data set is: labelled samples by index, as they are stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from holdfast.data.on_disk import digest_of
from holdfast.records import InputSpec
from holdfast.registry import Registry


class Dataset(Protocol):
    """Labelled samples by index; `inputs` returns them as stored, before any corruption."""

    name: str
    labels: NDArray[np.int64]
    class_names: Sequence[str]
    input_spec: InputSpec

    @property
    def digest(self) -> str:
        """Hex digest of the samples and labels: equal digests mean equal data."""

    def inputs(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        """Return samples by index: images, uint8 (n, height, width, 3), or waveforms, float32 (n, samples)."""


class DataRegistry(Registry[type]):
    """The data sets by name: classes like those here, and functions or classes of other libraries.

    What a registered function returns may be a torch or Hugging Face data set, or arrays with labels (`as_dataset`).
    """

    def register(self, name: str, *, alias: str | None = None) -> Callable[[Any], Any]:
        """Register a class or function that builds a data set, as a decorator; it stays as it is."""

        def add(entry: Any) -> Any:
            super(DataRegistry, self).register(name, alias=alias)(_wrapping(entry, name))
            return entry

        return add

    def adopted(self, plugin: Any) -> type:
        """Return an entry point's class or function as an entry."""
        entry: type = _wrapping(plugin, getattr(plugin, "__name__", "data"))
        return entry


def _wrapping(entry: Any, name: str) -> Any:
    """Return an entry whose results are data sets of this package."""
    if isinstance(entry, type) and hasattr(entry, "inputs"):
        return entry

    @wraps(entry)
    def build(*arguments: Any, **options: Any) -> Dataset:
        from holdfast.data.wrapped import as_dataset  # it builds on this module

        return as_dataset(entry(*arguments, **options), name=name)

    return build


DATASETS = DataRegistry("data set", "data")


class InMemoryImages:
    """Images that fit in memory, (n, height, width, 3) uint8, with their labels.

    `flips=False` says that a mirrored image no longer shows its class, so that no stream mirrors it.

    Args:
        images: (n, height, width, 3) of uint8.
        labels: index of the class of each image.
        name: under which reports show the data.
        class_names: names of the classes in order; empty: their indices.
        flips: whether a mirrored image still shows its class.
    """

    def __init__(
        self,
        images: NDArray[np.uint8],
        labels: NDArray[np.int64],
        *,
        name: str = "images",
        class_names: Sequence[str] = (),
        flips: bool = True,
    ) -> None:
        if images.ndim != 4 or images.shape[-1] != 3 or images.dtype != np.uint8:
            raise ValueError(
                f"images have shape {images.shape} and type {images.dtype}; pass uint8 (n, height, width, 3)"
            )
        if len(images) != len(labels):
            raise ValueError(f"{len(images)} images but {len(labels)} labels; pass one label for each image")
        self.name = name
        self.flips = flips
        self.images = images
        self.labels = np.asarray(labels, np.int64)
        self.class_names: Sequence[str] = names_of_classes(name, self.labels, class_names)
        self.input_spec = InputSpec("image", (3, images.shape[1], images.shape[2]))

    @property
    def digest(self) -> str:
        """Hex digest of pixels and labels."""
        return digest_of([repr(self.images.shape).encode(), self.images.tobytes(), self.labels.tobytes()])

    def inputs(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return the images at these indices."""
        return self.images[indices]


def names_of_classes(name: str, labels: NDArray[np.int64], class_names: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the given class names, or numbers if there are none; too few names are refused.

    >>> names_of_classes("few", np.array([0, 2]))
    ('0', '1', '2')
    """
    highest = int(labels.max(initial=0))
    names = tuple(class_names) or tuple(str(label) for label in range(highest + 1))
    if highest >= len(names):
        raise ValueError(f"{name} has the label {highest} but {len(names)} class names; pass one name per class")
    return names
