"""Data sets of other libraries as they are: torch and Hugging Face data sets, and arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from holdfast.data.audio_arrays import InMemoryAudio
from holdfast.data.base import Dataset, InMemoryImages, names_of_classes
from holdfast.data.on_disk import digest_of
from holdfast.records import InputSpec


def as_dataset(
    samples: Any,
    labels: Any = None,
    *,
    name: str = "data",
    class_names: Sequence[str] = (),
    sample_rate: int | None = None,
    flips: bool = True,
) -> Dataset:
    """Return labelled samples of any origin as a data set of holdfast; such a data set is returned as it is.

    Images are Pillow images, bytes (height, width, 3), or floats in [0, 1] (3, height, width), before any
    normalisation.

    Args:
        samples: arrays or tensors with `labels`, or anything with `len` and an index that returns an input and its
            label: a `torch.utils.data.Dataset`, or a Hugging Face `datasets.Dataset`.
        labels: of arrays: whole numbers from 0.
        name: for reports.
        class_names: in the order of the labels.
        sample_rate: of audio, in Hz.
        flips: whether a mirrored image is still of its class.

    >>> as_dataset(np.zeros((4, 3, 8, 8), np.float32), [0, 1, 0, 1]).input_spec
    InputSpec(kind='image', shape=(3, 8, 8), sample_rate=None)
    """
    if labels is None and isinstance(samples, tuple) and len(samples) == 2:
        samples, labels = samples
    if labels is None:
        if all(hasattr(samples, part) for part in ("inputs", "labels", "digest", "input_spec")):
            known: Dataset = samples
            return known
        return WrappedDataset(samples, name=name, class_names=class_names, sample_rate=sample_rate, flips=flips)
    targets = np.asarray(labels, np.int64)
    if sample_rate is not None:
        clips = np.asarray(samples, np.float32)
        return InMemoryAudio(clips, targets, sample_rate=sample_rate, name=name, class_names=class_names)
    images = np.stack([as_pixels(sample, f"sample {row} of {name}") for row, sample in enumerate(samples)])
    return InMemoryImages(images, targets, name=name, class_names=class_names, flips=flips)


class WrappedDataset:
    """A torch or Hugging Face data set, read sample by sample as it is needed."""

    def __init__(
        self,
        samples: Any,
        *,
        name: str = "data",
        class_names: Sequence[str] = (),
        sample_rate: int | None = None,
        flips: bool = True,
    ) -> None:
        if not (hasattr(samples, "__len__") and hasattr(samples, "__getitem__")):
            raise ValueError(
                f"{type(samples).__name__} is no data set; pass arrays with labels, or an object with len() and [index]"
            )
        if not len(samples):
            raise ValueError(f"{name} holds no samples; pass at least one")
        self.name, self.flips, self.sample_rate = name, flips, sample_rate
        self._samples, self._columns = samples, _columns(samples, name)
        self.labels = self._all_labels()
        self.class_names: Sequence[str] = names_of_classes(name, self.labels, class_names or self._known_classes())
        first = self._input(0)
        audio = first.dtype == np.float32
        shape = first.shape if audio else (first.shape[2], *first.shape[:2])
        self.input_spec = InputSpec("audio" if audio else "image", shape, self.sample_rate if audio else None)

    @cached_property
    def digest(self) -> str:
        """Hex digest of all samples and labels, which reads them once."""
        stated = repr((self.input_spec, len(self.labels))).encode()
        samples = (self._input(index).tobytes() for index in range(len(self.labels)))
        return digest_of(chain([stated, self.labels.tobytes()], samples))

    def inputs(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        """Return the samples at these indices."""
        spec = self.input_spec
        audio = spec.kind == "audio"
        shape = spec.shape if audio else (*spec.shape[1:], spec.shape[0])
        samples = np.empty((len(indices), *shape), np.float32 if audio else np.uint8)
        for row, index in enumerate(indices):
            sample = self._input(int(index))
            if sample.shape != shape:
                raise ValueError(
                    f"sample {index} of {self.name} has shape {sample.shape} and others have {shape}; resize or cut "
                    "them to one shape"
                )
            samples[row] = sample
        return samples

    def _pair(self, index: int) -> tuple[Any, Any]:
        item = self._samples[index]
        if self._columns is not None:
            return item[self._columns[0]], item[self._columns[1]]
        if not isinstance(item, (tuple, list)) or len(item) < 2:
            raise ValueError(f"sample {index} of {self.name} is {type(item).__name__}; return an input and its label")
        return item[0], item[1]

    def _input(self, index: int) -> NDArray[Any]:
        sample, where = self._pair(index)[0], f"sample {index} of {self.name}"
        if self.sample_rate is None and not _is_audio(sample):
            return as_pixels(sample, where)
        rate = int(sample["sampling_rate"]) if _is_audio(sample) else None
        if rate is not None and self.sample_rate not in (None, rate):
            raise ValueError(f"{where} has {rate} Hz and sample_rate is {self.sample_rate}; resample it")
        self.sample_rate = self.sample_rate or rate
        return as_waveform(sample, where)

    def _all_labels(self) -> NDArray[np.int64]:
        column = None if self._columns is None else self._samples[self._columns[1]]
        labels = getattr(self._samples, "targets", None) if column is None else column
        if labels is None or len(labels) != len(self._samples):
            labels = [self._pair(index)[1] for index in range(len(self._samples))]
        return np.asarray([int(label) for label in labels], np.int64)

    def _known_classes(self) -> Sequence[str]:
        if self._columns is not None:
            return getattr(self._samples.features[self._columns[1]], "names", None) or ()
        return getattr(self._samples, "classes", None) or ()


def as_pixels(sample: Any, where: str = "the image") -> NDArray[np.uint8]:
    """Return an image as bytes (height, width, 3).

    >>> as_pixels(np.full((1, 2, 2), 0.5, np.float32)).tolist()[0][0]
    [128, 128, 128]
    """
    if isinstance(sample, Image.Image):
        return np.array(sample.convert("RGB"))
    image = np.asarray(sample)
    if image.ndim == 2:
        image = image[None] if image.dtype.kind == "f" else image[..., None]
    if image.ndim != 3 or not {1, 3} & {image.shape[0], image.shape[-1]}:
        raise ValueError(f"{where} has shape {image.shape}; pass images (3, height, width) or (height, width, 3)")
    if image.shape[-1] not in (1, 3) or (image.dtype.kind == "f" and image.shape[0] in (1, 3)):
        image = np.moveaxis(image, 0, -1)
    if image.dtype.kind == "f":
        if image.min() < 0 or image.max() > 1:
            raise ValueError(
                f"{where} has values from {image.min():.3g} to {image.max():.3g}; leave out normalisation, so that "
                "they are in [0, 1]: the network has it"
            )
        image = np.rint(image * 255)
    elif image.dtype != np.uint8:
        raise ValueError(f"{where} has type {image.dtype}; pass uint8, or floats in [0, 1]")
    return np.array(np.broadcast_to(image, (*image.shape[:2], 3)), np.uint8)


def as_waveform(sample: Any, where: str = "the clip") -> NDArray[np.float32]:
    """Return a mono clip as floats in [-1, 1], (samples,)."""
    values = np.asarray(sample["array"] if isinstance(sample, dict) else sample, np.float32).squeeze()
    if values.ndim != 1 or np.abs(values).max(initial=0) > 1:
        raise ValueError(f"{where} has shape {values.shape}; pass mono clips (samples,) with values in [-1, 1]")
    return values


def _is_audio(sample: Any) -> bool:
    return isinstance(sample, dict) and "array" in sample


def _columns(samples: Any, name: str) -> tuple[str, str] | None:
    """Return the columns of inputs and labels of a Hugging Face data set; None for any other."""
    features = getattr(samples, "features", None)
    if not isinstance(features, dict) or not hasattr(samples, "column_names"):
        return None
    kinds = {column: type(feature).__name__ for column, feature in features.items()}
    inputs = [column for column, kind in kinds.items() if kind in ("Image", "Audio")]
    labels = [column for column, kind in kinds.items() if kind == "ClassLabel" or column in ("label", "labels")]
    if not inputs or not labels:
        raise ValueError(f"{name} has the columns {', '.join(kinds)}; it needs an image or audio column and a label")
    return inputs[0], labels[0]
