"""Every data set can be named in a suite, with its options."""

from __future__ import annotations

import pytest

from holdfast.benchmark.suite import SuiteError, parse_suite
from holdfast.data import DATASETS

SUITE = """
name: small
models: [digits_resnet]
recipes: [source]
streams:
  - {{name: continual, corruptions: [clean], data: {data}}}
"""
ENTRIES = [
    "{name: cifar10, split: test, folder: x}",
    "{name: cifar100, split: train, folder: x}",
    "{name: cifar_c, folder: x, corruption: fog, severity: 3}",
    "{name: digits, split: test}",
    "{name: image_folder, folder: x, resize: 64, crop: 32, cache_bytes: 0}",
    "{name: imagenet_c, folder: x, corruption: fog, severity: 3, cache_bytes: 0}",
    "{name: rs, split: test, folder: x}",
    "{name: sc2, split: validation, folder: x}",
    "{name: sound_folder, folder: x, sample_rate: 8000, seconds: 0.5}",
    "{name: sound_parquet, file: x, sample_rate: 8000, label_column: word}",
    "{name: us8, split: train, folder: x, sample_rate: 16000}",
    "{name: vs, split: test, folder: x}",
]


@pytest.mark.parametrize("entry", ENTRIES)
def test_options_are_known_and_others_are_not(entry: str) -> None:
    parse_suite(SUITE.format(data=entry))
    with pytest.raises(SuiteError, match="has no option 'folders'"):
        parse_suite(SUITE.format(data=entry.replace("}", ", folders: x}")))


def test_every_data_set_is_here_and_says_what_it_is() -> None:
    entries = {entry.name: entry for entry in DATASETS.entries()}
    assert {part.split(",")[0].removeprefix("{name: ") for part in ENTRIES} <= set(entries)
    assert all(entry.summary.endswith(".") and entry.citation for entry in entries.values())
