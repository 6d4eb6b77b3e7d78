"""The embedded keywords: synthesised once, cached, and the same on every machine."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from holdfast.audio.speech import Utterance, speak
from holdfast.data import DATASETS, Keywords, keywords
from holdfast.data.keywords import WORDS, utterances

needs_speech = pytest.mark.skipif(
    importlib.util.find_spec("espeakng_loader") is None, reason="speech: pip install 'holdfast[audio]'"
)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three words in sixteen voices, which are quick to synthesise."""
    monkeypatch.setattr(keywords, "WORDS", ("three", "tree", "free"))
    monkeypatch.setattr(keywords, "VARIANTS", keywords.VARIANTS[:8])


@needs_speech
def test_words_are_spoken_the_same_in_every_process() -> None:
    said = [Utterance("en-us+Andy", 160, 50, "three"), Utterance("en+m3", 180, 40, "tree")]
    first, again = speak(said), speak(said)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert all(2_000 < len(waveform) < 22_050 and 0.05 < np.abs(waveform).max() <= 1 for waveform in first)
    assert not np.array_equal(*(waveform[:2_000] for waveform in first))


@needs_speech
def test_an_unknown_voice_is_named() -> None:
    with pytest.raises(RuntimeError, match=r"eSpeak NG failed .*en-mars"):
        speak([Utterance("en-mars", 160, 50, "three")])


def test_no_voice_is_in_two_splits() -> None:
    voices = {split: {said.voice for said in utterances(split)} for split in ("train", "validation", "test")}
    assert [len(each) for each in voices.values()] == [116, 24, 48]
    variants = [{voice.split("+")[1] for voice in each} for each in voices.values()]
    assert len(set.union(*variants)) == sum(map(len, variants)) == 94
    assert len(WORDS) == 24
    assert set(Counter(said.text for said in utterances("test")).values()) == {48}


@needs_speech
@pytest.mark.usefixtures("few")
def test_clips_are_kept_and_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = DATASETS["keywords"]("test", cache=tmp_path)
    assert (data.waveforms.shape, data.input_spec.sample_rate) == ((12, 16_000), 16_000)
    assert data.labels.tolist() == [0, 1, 2] * 4
    assert data.class_names == ("three", "tree", "free")
    assert not data.waveforms[:, :4_000].any()  # in the middle of silence
    assert (np.abs(data.waveforms).max(1) > 0.05).all()
    with monkeypatch.context() as no_voice:
        no_voice.setattr(keywords, "speak", None)
        assert Keywords("test", cache=tmp_path).digest == data.digest
        assert len(Keywords("train", cache=tmp_path).labels) == 30
    assert Keywords("test", cache=tmp_path / "elsewhere").digest == data.digest


@pytest.mark.parametrize("damage", ["cut", "changed", "checksums"])
@needs_speech
@pytest.mark.usefixtures("few")
def test_what_is_damaged_is_spoken_again(damage: str, tmp_path: Path) -> None:
    before = Keywords("test", cache=tmp_path).digest
    (folder,) = tmp_path.iterdir()
    file = folder / ("checksums.json" if damage == "checksums" else "test.npz")
    content = bytearray(file.read_bytes())
    if damage == "changed":
        content[len(content) // 2] ^= 1
    file.write_bytes(content if damage == "changed" else content[:100])
    with pytest.warns(UserWarning, match="damaged and will be synthesised again") as warned:
        assert Keywords("test", cache=tmp_path).digest == before
    assert len(warned) == 1
    assert Keywords("test", cache=tmp_path).digest == before
    assert set(json.loads((folder / "checksums.json").read_text())) == {"train", "validation", "test"}


def test_without_the_extra_one_sentence_says_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(
        ImportError, match=r'^keywords .* espeakng-loader is not installed: pip install "holdfast\[audio\]"$'
    ):
        Keywords(cache=tmp_path)


def test_an_unknown_split_is_answered_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no split 'tset'; choose train, validation or test"):
        Keywords("tset", cache=tmp_path)  # type: ignore[arg-type]
