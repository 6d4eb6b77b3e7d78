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
    "{name: ccc_shards, paths: x}",
    "{name: cifar10, split: test, folder: x}",
    "{name: cifar100, split: train, folder: x}",
    "{name: cifar_c, folder: x, corruption: fog, severity: 3}",
    "{name: cochlscene, split: test, folder: x, seconds: 10}",
    "{name: digits, split: test}",
    "{name: domain_folder, folder: x, domains: [photo], resize: 64, crop: 32}",
    "{name: imagenet_v2, folder: x}",
    "{name: imagenet_r, folder: x}",
    "{name: imagenet_a, folder: x}",
    "{name: imagenet_sketch, folder: x}",
    "{name: imagenet_d109, folder: x}",
    "{name: cifar10_1, folder: x}",
    "{name: cifar10_2, folder: x}",
    "{name: iwildcam, folder: x}",
    "{name: camelyon17, folder: x}",
    "{name: image_folder, folder: x, resize: 64, crop: 32, cache_bytes: 0}",
    "{name: imagenet_c, folder: x, corruption: fog, severity: 3, cache_bytes: 0}",
    "{name: keywords, split: test}",
    "{name: reefset, split: test, folder: x}",
    "{name: rs, split: test, folder: x}",
    "{name: speech_commands, split: validation, folder: x}",
    "{name: sc2, split: validation, folder: x}",
    "{name: audio_folder, folder: x, sample_rate: 8000, seconds: 0.5}",
    "{name: sound_folder, folder: x, sample_rate: 8000, seconds: 0.5}",
    "{name: audio_parquet, file: x, sample_rate: 8000, label_column: word}",
    "{name: sound_parquet, file: x, sample_rate: 8000, label_column: word}",
    "{name: stored_cifar_c, folder: x, clean: y}",
    "{name: stored_imagenet_c, folder: x, clean: y, resize: 64, crop: 32}",
    "{name: stored_imagenet_c_bar, folder: x, clean: y}",
    "{name: stored_imagenet_3dcc, folder: x, clean: y}",
    "{name: stored_reefset_c, folder: x, clean: y}",
    "{name: stored_speech_commands_c, folder: x, clean: y}",
    "{name: stored_urbansound8k_c, folder: x, clean: y, sample_rate: 16000}",
    "{name: stored_vocalsound_c, folder: x, clean: y}",
    "{name: urbansound8k, split: train, folder: x, sample_rate: 16000}",
    "{name: us8, split: train, folder: x, sample_rate: 16000}",
    "{name: vocalsound, split: test, folder: x}",
    "{name: vs, split: test, folder: x}",
]


@pytest.mark.parametrize("entry", ENTRIES)
def test_options_are_known_and_others_are_not(entry: str) -> None:
    parse_suite(SUITE.format(data=entry))
    with pytest.raises(SuiteError, match="has no option 'folders'"):
        parse_suite(SUITE.format(data=entry.replace("}", ", folders: x}")))


def test_every_data_set_is_here_and_has_summary_and_citation() -> None:
    here = {part.strip("{}").split(",")[0].removeprefix("name: ") for part in ENTRIES}
    for entry in DATASETS.entries():
        file = f"the file of {DATASETS[entry.name].__module__}"
        assert entry.name in here, f"add a line for {entry.name!r} to ENTRIES in tests/data/test_data_in_suites.py"
        assert entry.summary.endswith("."), f"{file}: the docstring of {entry.name!r} must begin with a sentence"
        assert entry.citation, f"{file}: {entry.name!r} has no `citation`"
