"""Audio data sets in memory and in Parquet files."""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path

import numpy as np
import pytest
from scipy.io import wavfile

from holdfast.data import AudioParquet, InMemoryAudio

REAL = Path(__file__).resolve().parents[3] / "shared" / "data"
CLIPS = np.float32(np.random.default_rng(0).uniform(-1, 1, (4, 800)))
LABELS = np.array([0, 1, 2, 1])


def test_sounds_in_memory_are_what_they_were() -> None:
    data = InMemoryAudio(CLIPS, LABELS, sample_rate=8_000)
    assert (data.input_spec.kind, data.input_spec.shape, data.input_spec.sample_rate) == ("audio", (800,), 8_000)
    assert np.array_equal(data.inputs(np.array([2, 0])), CLIPS[[2, 0]])
    assert data.class_names == ("0", "1", "2")
    digests = {InMemoryAudio(CLIPS, LABELS, sample_rate=rate).digest for rate in (8_000, 8_000, 16_000)}
    assert len(digests | {InMemoryAudio(-CLIPS, LABELS, sample_rate=8_000).digest}) == 3


@pytest.mark.parametrize(
    ("clips", "labels", "rate", "problem"),
    [
        (CLIPS.astype(np.float64), LABELS, 8_000, "float64; pass float32"),
        (CLIPS[:, None], LABELS, 8_000, r"pass float32 \(n, samples\), mono"),
        (CLIPS, LABELS[:3], 8_000, "one label for each clip"),
        (CLIPS, LABELS, 0, "at least 1 Hz, got 0"),
        (
            np.where(np.arange(4)[:, None] == 2, np.float32("inf"), CLIPS),
            LABELS,
            8_000,
            "clip 2 of sounds contains NaN or inf",
        ),
    ],
)
def test_what_is_no_sound_is_refused(clips: np.ndarray, labels: np.ndarray, rate: int, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        InMemoryAudio(clips, labels, sample_rate=rate)


@pytest.fixture
def parquet_file(tmp_path: Path) -> Path:
    """Four clips of different lengths in two folds."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    files = []
    for length, clip in zip((800, 500, 600, 700), CLIPS, strict=True):
        file = io.BytesIO()
        wavfile.write(file, 8_000, clip[:length])
        files.append({"bytes": file.getvalue(), "path": None})
    table = pyarrow.table({"audio": files, "label": LABELS, "fold": [1, 2, 1, 2]})
    parquet.write_table(table, tmp_path / "sounds.parquet")
    return tmp_path / "sounds.parquet"


def test_parquet_files_are_read_at_one_rate_and_length(parquet_file: Path) -> None:
    data = AudioParquet(file=parquet_file, sample_rate=8_000)
    assert data.input_spec.shape == (800,)
    assert data.labels.tolist() == LABELS.tolist()
    assert np.array_equal(data.waveforms[1, 150:650], CLIPS[1, :500])
    assert not data.waveforms[1, :150].any()
    assert AudioParquet(file=parquet_file, sample_rate=16_000, seconds=0.05).input_spec.shape == (800,)


def test_rows_are_chosen_by_their_columns(parquet_file: Path) -> None:
    assert AudioParquet(file=parquet_file, sample_rate=8_000, only={"fold": [2]}).labels.tolist() == [1, 1]
    with pytest.raises(ValueError, match="no row"):
        AudioParquet(file=parquet_file, only={"fold": [3]})
    with pytest.raises(ValueError, match="has no column take"):
        AudioParquet(file=parquet_file, only={"take": [3]})
    with pytest.raises(ValueError, match="there is no file"):
        AudioParquet(file=parquet_file.with_name("absent.parquet"))


@pytest.mark.skipif(
    not REAL.exists() or importlib.util.find_spec("soundfile") is None, reason="real data or soundfile is not here"
)
def test_real_spoken_digits_are_read() -> None:
    data = AudioParquet(file=REAL / "fsdd" / "test.parquet", sample_rate=8_000, seconds=1.0)
    assert (len(data.labels), len(data.class_names)) == (300, 10)
    assert 0.01 < data.waveforms.std() < 0.5
