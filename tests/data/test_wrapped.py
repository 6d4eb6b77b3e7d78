"""Data sets of other libraries are read as they are; what cannot be read is refused in one sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import TensorDataset

from holdfast.data import DATASETS, Digits, as_dataset
from holdfast.testing import check_dataset

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 8, 9, 3), np.uint8)
LABELS = [0, 2, 1, 0, 2, 1]


class Photos(TorchDataset[Any]):
    """Pillow images, as torchvision returns them."""

    classes = ("cat", "dog", "eel")

    def __len__(self) -> int:
        return len(LABELS)

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        if index >= len(LABELS):
            raise IndexError(index)
        return Image.fromarray(PIXELS[index]), LABELS[index]


class FirstPhotos(Photos):
    """Some of the images, with the targets of all, as subclasses of torchvision's data sets have them."""

    targets = LABELS[::-1]

    def __len__(self) -> int:
        return 3


class ClassLabel:
    names = ("cat", "dog", "eel")


class Hub:
    """The interface of a Hugging Face data set."""

    column_names = ("image", "label")

    def __init__(self) -> None:
        self.features = {"image": type("Image", (), {})(), "label": ClassLabel()}

    def __len__(self) -> int:
        return len(LABELS)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return LABELS
        return {"image": Image.fromarray(PIXELS[key]), "label": LABELS[key]}


def tensors() -> TensorDataset:
    return TensorDataset(torch.from_numpy(PIXELS).permute(0, 3, 1, 2) / 255, torch.tensor(LABELS))


@pytest.mark.parametrize(
    "given", [Photos, Hub, tensors, lambda: (PIXELS, LABELS), lambda: (PIXELS.transpose(0, 3, 1, 2) / 255.0, LABELS)]
)
def test_every_form_gives_the_same_samples(given: Any) -> None:
    data = as_dataset(given())
    assert data.input_spec.shape == (3, 8, 9)
    assert data.labels.tolist() == LABELS
    assert np.array_equal(data.inputs(np.array([4, 1])), PIXELS[[4, 1]])
    if given in (Photos, Hub):
        assert tuple(data.class_names) == ("cat", "dog", "eel")


def test_targets_of_another_length_are_not_the_labels() -> None:
    assert as_dataset(FirstPhotos()).labels.tolist() == LABELS[:3]


@pytest.mark.parametrize("given", [Photos, tensors])
def test_a_registered_function_or_class_of_another_library_keeps_the_contracts(given: Any) -> None:
    DATASETS.register("photos_of_mine")(given)
    try:
        check_dataset("photos_of_mine")
        assert DATASETS["photos_of_mine"]().name == "photos_of_mine"
    finally:
        DATASETS.discard("photos_of_mine")


def test_grey_images_become_rgb_and_audio_is_mono() -> None:
    assert as_dataset(np.ones((2, 1, 4, 4), np.float32), [0, 1]).inputs(np.array([0])).shape == (1, 4, 4, 3)
    clips = TensorDataset(torch.zeros(3, 1, 800), torch.tensor([0, 1, 1]))
    audio = as_dataset(clips, sample_rate=8000)
    assert (audio.input_spec.kind, audio.input_spec.shape, audio.input_spec.sample_rate) == ("audio", (800,), 8000)
    named = [({"array": np.zeros(800), "sampling_rate": 8000}, 0), ({"array": np.zeros(800), "sampling_rate": 8000}, 1)]
    assert as_dataset(named).input_spec == audio.input_spec


def test_a_data_set_of_holdfast_is_returned_as_it_is() -> None:
    digits = Digits()
    assert as_dataset(digits) is digits


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ((np.full((1, 3, 4, 4), 2.5), [0]), r"values from 2.5 to 2.5; leave out normalisation"),
        ((np.zeros((1, 3, 4, 4), np.int32), [0]), "type int32; pass uint8"),
        ((np.zeros((1, 5, 4, 4)), [0]), r"shape \(5, 4, 4\)"),
        ([(np.zeros((3, 4, 4)), 0), (np.zeros((3, 4, 5)), 0)], "sample 1 of data has shape"),
        ([3, 4], "sample 0 of data is int; return an input and its label"),
        ([], "holds no samples"),
        (7, "int is no data set"),
    ],
)
def test_what_cannot_be_read_is_refused(given: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read(given)


def read(given: Any) -> None:
    data = as_dataset(given)
    data.inputs(np.arange(len(data.labels)))
