"""The data sets of DHAuDS, in small versions of their published layouts."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from scipy.io import wavfile

from holdfast.data import AudioFolder, CochlScene, ReefSet, SpeechCommands, UrbanSound8K, VocalSound


def write(path: Path, level: int, samples: int = 400, rate: int = 16_000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    wavfile.write(path, rate, np.full(samples, 1000 * level, np.int16))


def level(data: UrbanSound8K | SpeechCommands | VocalSound | ReefSet | AudioFolder, index: int) -> int:
    """Return the level with which `write` wrote this file."""
    clip = data.clip(index)
    return round(float(clip[len(clip) // 2]) * 32.768)


def test_urbansound_is_split_by_folds(tmp_path: Path) -> None:
    pytest.importorskip("soxr", reason="resampling: pip install 'holdfast[audio]'")
    root = tmp_path / "UrbanSound8K"
    rows = [("9-a.wav", 9, 3), ("8-a.wav", 8, 0), ("1-a.wav", 1, 9), ("8-b.wav", 8, 4)]
    for number, (name, fold, _) in enumerate(rows):
        write(root / "audio" / f"fold{fold}" / name, number + 1, rate=22_050)
    lines = [f"{name},0,0,1,1,{fold},{label},x" for name, fold, label in rows]
    (root / "metadata").mkdir()
    header = "slice_file_name,fsID,start,end,salience,fold,classID,class"
    (root / "metadata" / "UrbanSound8K.csv").write_text("\n".join([header, *lines]))
    data = UrbanSound8K(folder=tmp_path)
    assert data.labels.tolist() == [0, 4, 3]
    assert [level(data, index) for index in range(3)] == [2, 4, 1]
    assert data.inputs(np.array([0])).shape == (1, 176_400)
    assert len(data.clip(0)) == 800  # resampled, and not yet brought to its length
    assert UrbanSound8K("train", folder=root, sample_rate=16_000).input_spec.shape == (64_000,)
    with pytest.raises(ValueError, match="choose train or test"):
        UrbanSound8K("validation", folder=root)  # type: ignore[arg-type]
    (root / "audio" / "fold9" / "9-a.wav").unlink()
    with pytest.raises(ValueError, match=r"9-a\.wav is missing; unpack"):
        data.inputs(np.array([2]))


def test_each_fold_of_urbansound_is_in_one_split(tmp_path: Path) -> None:
    lines = [f"{fold}-a.wav,0,0,1,1,{fold},{fold - 1},x" for fold in range(1, 11)]
    for fold in range(1, 11):
        write(tmp_path / "audio" / f"fold{fold}" / f"{fold}-a.wav", fold, rate=44_100)
    (tmp_path / "metadata").mkdir()
    header = "slice_file_name,fsID,start,end,salience,fold,classID,class"
    (tmp_path / "metadata" / "UrbanSound8K.csv").write_text("\n".join([header, *lines]))
    train, test = UrbanSound8K("train", folder=tmp_path), UrbanSound8K("test", folder=tmp_path)
    assert (train.labels + 1).tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert (test.labels + 1).tolist() == [8, 9, 10]


def test_speech_commands_are_split_by_lists(tmp_path: Path) -> None:
    root = tmp_path / "speech_commands_v0.02" / "speech_commands_v0.02"
    for number, word in enumerate(("zero", "bird", "cat", "cat")):
        write(root / word / f"{number}_nohash_0.wav", number + 1)
    write(root / "_background_noise_" / "running_tap.wav", 9)
    (root / "testing_list.txt").write_text("cat/2_nohash_0.wav\nbird/1_nohash_0.wav\n")
    (root / "validation_list.txt").write_text("zero/0_nohash_0.wav\n")
    data = SpeechCommands(folder=tmp_path)
    assert (data.labels.tolist(), [level(data, index) for index in range(2)]) == ([17, 32], [3, 2])
    assert [data.class_names[label] for label in data.labels] == ["cat", "bird"]
    assert len(data.class_names) == 35
    assert SpeechCommands("train", folder=root).files == ("cat/3_nohash_0.wav",)
    assert SpeechCommands("validation", folder=root).labels.tolist() == [4]


def test_vocalsound_is_split_by_lists(tmp_path: Path) -> None:
    root = tmp_path / "vocalsound_16k"
    write(root / "audio_16k" / "f1_0_cough.wav", 1)
    write(root / "audio_16k" / "f2_0_sigh.wav", 2)
    (root / "datafiles").mkdir()
    listed = [{"wav": "/data/sls/f2_0_sigh.wav", "labels": "/m/07plz5l"}, {"wav": "f1_0_cough.wav", "labels": "/m/01b"}]
    (root / "datafiles" / "te.json").write_text(json.dumps({"data": listed}))
    (root / "class_labels_indices_vs.csv").write_text("index,mid,display_name\n1,/m/07plz5l,Sigh\n0,/m/01b,Cough\n")
    data = VocalSound(folder=tmp_path)
    assert (data.labels.tolist(), list(data.class_names)) == ([1, 0], ["Cough", "Sigh"])
    assert [level(data, index) for index in range(2)] == [2, 1]
    assert data.input_spec.shape == (160_000,)


def test_reefset_is_split_as_published(tmp_path: Path) -> None:
    root = tmp_path / "ReefSet_v1.0"
    labels = ["wave"] * 7 + ["boat"] * 3  # the split of these ten is in the doctest of `split_by_label`
    index = [{"id": number, "file_name": f"{number}.wav", "label": label} for number, label in enumerate(labels)]
    for row in index:
        write(root / "full_dataset" / str(row["file_name"]), int(row["id"]) + 1)
    (root / "reefset_annotations.json").write_text(json.dumps(index[::-1]))
    data = ReefSet(folder=tmp_path)
    assert [Path(file).stem for file in data.files] == ["9", "4", "3", "0"]
    assert data.labels.tolist() == [0, 1, 1, 1]
    assert data.input_spec.shape == (30_080,)


def test_cochlscene_is_split_by_folders(tmp_path: Path) -> None:
    root = tmp_path / "CochlScene"
    for number, name in enumerate(("Test/Street/b.wav", "Test/Bus/a.wav", "Val/Cafe/c.wav", "Test/Street/a.wav")):
        write(root / name, number + 1, rate=44_100)
    data = CochlScene(folder=tmp_path)
    assert (data.labels.tolist(), [level(data, index) for index in range(3)]) == ([0, 10, 10], [2, 4, 1])
    assert (len(data.class_names), data.class_names[10]) == (13, "Street")
    assert data.input_spec.shape == (176_400,)
    assert CochlScene("validation", folder=root, seconds=10).input_spec.shape == (441_000,)
    with pytest.raises(ValueError, match="unpack CochlScene"):
        CochlScene("train", folder=root)
    (root / "Val" / "Beach").mkdir()
    with pytest.raises(ValueError, match="'Beach' that is no scene"):
        CochlScene("validation", folder=root)


def test_folders_are_classes(tmp_path: Path) -> None:
    for number, name in enumerate(("cat/b.wav", "ant/deep/a.WAV", "cat/a.wav")):
        write(tmp_path / name, number + 1)
    data = AudioFolder(folder=tmp_path, seconds=0.05)
    assert (data.files, data.labels.tolist()) == (("ant/deep/a.WAV", "cat/a.wav", "cat/b.wav"), [0, 1, 1])
    clips = data.inputs(np.array([0, 2]))
    assert clips.shape == (2, 800)
    assert clips[1, 200:600] == pytest.approx(np.full(400, 1000 / 32768), abs=1e-6)
    before = data.digest
    assert pickle.loads(pickle.dumps(data)).digest == before
    write(tmp_path / "cat" / "a.wav", 4)
    assert AudioFolder(folder=tmp_path, seconds=0.05).digest != before
    write(tmp_path / "cat" / "b.wav", 0)
    with pytest.raises(ValueError, match=r"b\.wav is silent"):
        data.inputs(np.array([2]))
    with pytest.raises(ValueError, match="no class folders"):
        AudioFolder(folder=tmp_path / "ant" / "deep")
