"""`holdfast export`: parts of a stream give the same shards as one export, and a stream by itself again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from holdfast.cli import app
from holdfast.data import Digits, Shards
from holdfast.streams import continual

SUITE = """\
name: small
models: [digits_resnet]
streams:
  - {name: continual, label: short, data: {name: digits, split: test}, corruptions: [contrast], samples_per_domain: 24}
recipes: [source, tent]
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "suite.yaml").write_text(SUITE)
    return tmp_path / "suite.yaml"


def exported(suite: Path, out: Path, *options: str) -> dict[str, list[str]]:
    arguments = ["export", str(suite), "--out", str(out), "--shard-images", "10", "--json", *options]
    ended = CliRunner().invoke(app, arguments)
    assert ended.exit_code == 0, ended.output
    printed: dict[str, list[str]] = json.loads(ended.stdout)
    return printed


def test_parts_give_the_shards_of_one_export(suite: Path, tmp_path: Path) -> None:
    whole = exported(suite, tmp_path / "whole")
    assert list(whole.values()) == [["serial_00000.tar", "serial_00001.tar", "serial_00002.tar"]]
    for part in ("2/2", "1/2"):
        exported(suite, tmp_path / "parts", "--part", part)
    folder = next(iter(whole)).rpartition("/")[2]
    first, second = (sorted((tmp_path / name / folder).glob("*.tar")) for name in ("whole", "parts"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    stream = continual(Digits("test"), corruptions=["contrast"], samples_per_domain=24)
    assert np.array_equal(Shards(paths=tmp_path / "parts" / folder).labels, stream.render(0, 24).labels)


def test_what_is_not_there_is_named(suite: Path, tmp_path: Path) -> None:
    for options, words in (
        (["--stream", "long"], "has no stream 'long'; choose from short"),
        (["--part", "3/2"], "3/2"),
    ):
        ended = CliRunner().invoke(app, ["export", str(suite), "--out", str(tmp_path / "out"), *options])
        assert words in str(ended.exception)
