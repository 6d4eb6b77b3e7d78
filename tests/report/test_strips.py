"""Strips of the stream: what a run keeps of it, and what the page shows."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from run_files import PROTOCOL, WriteRun, batches

from holdfast.benchmark.strip import make_strip, write_strip
from holdfast.data import Digits, InMemoryAudio
from holdfast.report import DamagedRunError, make_report, write_report
from holdfast.report.strips import Excerpt, strip_to_html
from holdfast.streams import continual


def content(link: str) -> bytes:
    return base64.b64decode(link.partition(",")[2])


def test_images_of_a_strip_are_those_of_the_stream() -> None:
    stream = continual(Digits("test"), corruptions=["fog", "contrast"], samples_per_domain=30)
    strip = make_strip(stream, 60)
    assert [sample["domain"] for sample in strip] == ["fog"] * 3 + ["contrast"] * 3
    for sample in strip:
        seen = stream.read(sample["position"], sample["position"] + 4).inputs.numpy()
        shown = [np.asarray(Image.open(io.BytesIO(content(image)))) for image in sample["images"]]
        assert np.array_equal(np.stack(shown), seen)


def test_a_stream_shorter_than_the_strip_has_all_of_its_samples() -> None:
    strip = make_strip(continual(Digits("test"), corruptions=["fog"], samples_per_domain=3), 3)
    assert [(sample["position"], len(sample["images"])) for sample in strip] == [(0, 3), (1, 2), (2, 1)]


def test_audio_can_be_heard_and_seen() -> None:
    soundfile = pytest.importorskip("soundfile")
    waves = 0.3 * np.random.default_rng(0).standard_normal((8, 4000)).astype(np.float32).clip(-1, 1)
    data = InMemoryAudio(waves, np.zeros(8, np.int64), sample_rate=8000)
    stream = continual(data, corruptions=["clean"], samples_per_domain=8)
    sample = make_strip(stream, 8)[0]
    heard, rate = soundfile.read(io.BytesIO(content(sample["audio"])))
    (seen,) = stream.read(sample["position"], sample["position"] + 1).inputs.numpy()
    assert (rate, len(heard)) == (8000, 4000)
    assert np.abs(heard - seen).max() < 0.02  # eight bits
    assert Image.open(io.BytesIO(content(sample["images"][0]))).size == (80, 48)


def test_the_page_shows_the_strip_of_the_first_seed(write_run: WriteRun, tmp_path: Path) -> None:
    stream = continual(Digits("test"), corruptions=["fog"], samples_per_domain=20)
    write_run("source", batches({"fog": [5, 6]}), protocol={"stream": stream.protocol})
    runs = tmp_path / "runs"
    assert "What the model saw" not in write_report(make_report(runs)).read_text()  # runs of version 0.2 have none
    write_strip(runs / "strips", stream, seed=0, total=20)
    text = write_report(make_report(runs)).read_text()
    assert "What the model saw" in text
    assert text.count('<img src="data:image/png;base64,') == 5 * 4 + 2
    assert "<p>18: fog 5</p>" in text


def test_a_damaged_strip_is_named(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("source", batches({"fog": [5]}))
    strip = tmp_path / "runs" / "strips" / f"{PROTOCOL['stream']}-0-10.json"
    strip.parent.mkdir()
    strip.write_text(json.dumps([{"position": 0}]))
    with pytest.raises(DamagedRunError, match=r"10\.json is not a strip.*delete it"):
        make_report(tmp_path / "runs")


def test_what_a_strip_says_is_escaped() -> None:
    assert "<b>" not in strip_to_html([Excerpt(position=0, domain="<b>", severities={}, images=['"><b>'])])
