"""Contracts of a data set: labels, class names, inputs as their specification says, and a digest that is stable."""

from __future__ import annotations

import pickle
import string
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from holdfast.data import DATASETS, Dataset
from holdfast.testing.contract import contract
from holdfast.testing.global_state import untouched_global_generators


def check_dataset(dataset: str | Callable[..., Dataset], /, **options: Any) -> None:
    """Run every contract of a data set and print a line for each; one that fails raises an AssertionError.

    Args:
        dataset: a registered name, or a class or function; it is built twice.
        **options: to build it with.

    >>> check_dataset("digits", split="validation")  # doctest: +ELLIPSIS
    holds: ...
    """
    build = partial(DATASETS[dataset] if isinstance(dataset, str) else dataset, **options)
    data = build()  # the first build may import a library that draws
    few = np.arange(min(4, len(data.labels)))
    with contract("No random number is drawn from a global generator."), untouched_global_generators(data.name):
        again = build()
        again.inputs(few)
    with contract("Labels are whole numbers from 0, and every class has a name."):
        _check_labels(data)
    with contract("Inputs have the type and shape of input_spec."):
        _check_inputs(data)
    with contract("Samples do not depend on their index and company, and writing to them does not change the data."):
        _check_indices(data)
    with contract("The digest is hexadecimal and stable."):
        _check_digest(data, again)
    with contract("A second build and a pickled copy hold the same samples."):
        travelled = pickle.loads(pickle.dumps(data))
        for other, how in ((again, "a second build"), (travelled, "pickling")):
            assert np.array_equal(data.labels, other.labels), f"the labels of {data.name} differ after {how}"
            assert np.array_equal(data.inputs(few), other.inputs(few)), f"the inputs of {data.name} differ after {how}"


def _check_labels(data: Dataset) -> None:
    name, labels, classes = data.name, data.labels, list(data.class_names)
    assert name.strip(), "the data set has no name"
    assert labels.ndim == 1, f"labels of {name} have shape {labels.shape}, not (n,)"
    assert len(labels), f"{name} holds no samples"
    assert labels.dtype == np.int64, f"labels of {name} are {labels.dtype}, not int64"
    assert all(isinstance(each, str) and each for each in classes), f"class names of {name} are not all words"
    assert len(set(classes)) == len(classes), f"{name} has two classes of one name"
    low, high = int(labels.min()), int(labels.max())
    assert low >= 0, f"{name} has a label {low}"
    assert high < len(classes), f"{name} has a label {high} but {len(classes)} class names"


def _check_inputs(data: Dataset) -> None:
    spec, inputs = data.input_spec, data.inputs(np.array([0]))
    if spec.kind == "image":
        channels, height, width = spec.shape
        expected: tuple[Any, tuple[int, ...]] = np.uint8, (1, height, width, channels)
    else:
        assert spec.kind == "audio", f"{data.name} holds inputs of kind {spec.kind!r}, not image or audio"
        assert spec.sample_rate, f"the input_spec of {data.name} has no sample rate"
        expected = np.float32, (1, *spec.shape)
    actual = f"{inputs.dtype} {inputs.shape}"
    assert (inputs.dtype, inputs.shape) == expected, f"inputs of {data.name} are {actual}, but its input_spec is {spec}"
    if spec.kind == "audio":
        assert np.abs(inputs).max() <= 1, f"inputs of {data.name} are not in [-1, 1]"


def _check_indices(data: Dataset) -> None:
    last = len(data.labels) - 1
    indices = np.array([last, 0, last // 2, last, 0])
    inputs = data.inputs(indices)
    for row, index in enumerate(indices):
        alone = data.inputs(np.array([index]))[0]
        assert np.array_equal(inputs[row], alone), f"inputs of {data.name} depend on the other indices"
    empty = data.inputs(np.array([], np.int64))
    assert empty.shape == (0, *inputs.shape[1:]), f"no indices give {data.name} inputs of shape {empty.shape}"
    assert inputs.flags.writeable, f"inputs of {data.name} cannot be written to; return a copy"
    kept = inputs.copy()
    inputs[:] = 0
    assert np.array_equal(data.inputs(indices), kept), f"writing to inputs of {data.name} changes the data"


def _check_digest(data: Dataset, again: Dataset) -> None:
    digest = data.digest
    assert isinstance(digest, str), f"the digest of {data.name} is no string"
    assert len(digest) >= 16, f"the digest of {data.name} has {len(digest)} digits, fewer than 16"
    assert set(digest) <= set(string.hexdigits), f"the digest of {data.name} is not hexadecimal: {digest!r}"
    assert data.digest == digest, f"the digest of {data.name} changes when it is read again"
    assert again.digest == digest, f"the digest of {data.name} differs between two builds"
