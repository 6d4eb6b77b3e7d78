"""Stored corruptions: downloaded layouts as domains of any stream, read on demand and never computed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from scipy.io import wavfile

from holdfast.data import (
    DATASETS,
    StoredCifarC,
    StoredCorruptions,
    StoredImageNet3DCC,
    StoredImageNetC,
    StoredReefSetC,
    StoredSpeechCommandsC,
    StoredUrbanSoundC,
    StoredVocalSoundC,
)
from holdfast.records import Batch
from holdfast.registry import UnknownNameError
from holdfast.streams import continual, dhauds, gradual, markov, mixed_domains, reset_each_shift, unitta

Make = Callable[..., NDArray[np.uint8]]
NAMES = ("fog", "gaussian_noise")


def value(index: int, severity: int, sample: int) -> int:
    """Return the grey level that a fixture stores for a corruption, a severity and a sample."""
    return 100 * index + 20 * (severity - 1) + sample


@pytest.fixture(scope="module")
def cifar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CIFAR-10-C as downloaded, with eight images of plain grey for each severity, and the original test images."""
    folder = tmp_path_factory.mktemp("CIFAR-10-C")
    for index, name in enumerate(NAMES):
        grey = [value(index, severity, sample) for severity in range(1, 6) for sample in range(8)]
        np.save(folder / f"{name}.npy", np.broadcast_to(np.uint8(grey)[:, None, None, None], (40, 32, 32, 3)))
    np.save(folder / "labels.npy", np.tile(np.arange(8, dtype=np.uint8), 5))
    (folder / "clean").mkdir()
    clean = np.full((8, 32, 32, 3), 250, np.uint8)
    np.savez(folder / "clean" / "test.npz", images=clean, labels=np.arange(8))
    return folder


@pytest.fixture(scope="module")
def imagenet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ImageNet-C as downloaded: class folders for each corruption and severity, one of them in the archive's group."""
    folder = tmp_path_factory.mktemp("ImageNet-C")
    for index, name in enumerate(("fog", "noise/gaussian_noise")):
        for severity in (3, 5):
            for sample, file in enumerate(("n01/a.png", "n01/b.png", "n02/c.png")):
                path = folder / name / str(severity) / file
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.new("RGB", (48, 48), (value(index, severity, sample),) * 3).save(path)
    return folder


def greys(batch: Batch) -> list[int]:
    return [round(float(image.mean()) * 255) for image in batch.inputs]


def test_arrays_are_mapped_and_read_by_domain_severity_and_sample(cifar: Path) -> None:
    data = StoredCifarC(folder=cifar)
    assert isinstance(data, StoredCorruptions)
    assert (data.name, data.stored, len(data.class_names)) == ("cifar10_c", NAMES, 10)
    assert all(isinstance(images, np.memmap) for images in data.arrays.values())
    stream = continual(data, corruptions=NAMES, severity=3)
    for index, batch in enumerate(stream):
        assert greys(batch) == [value(index, 3, int(label)) for label in batch.labels]
        assert set(batch.domains) == {NAMES[index]}
    assert stream.spec["corruptions"] == "stored"
    assert stream.spec["data"] == {"name": "cifar10_c", "digest": data.digest}


@pytest.mark.parametrize(
    ("build", "severities"),
    [
        (lambda data: gradual(data, corruptions=NAMES, severities=(1, 4)), {1, 4}),
        (lambda data: mixed_domains(data, corruptions=NAMES, severity=2), {2}),
        (lambda data: reset_each_shift(data, corruptions=NAMES), {5}),
        (lambda data: markov(data, corruptions=NAMES, classes={"stay": 0.9}, samples=40), {5}),
        (lambda data: unitta(data, setting="(n,1)/(n,1)", corruptions=NAMES, samples=40, mode="stationary"), {5}),
    ],
)
def test_every_stream_reads_what_its_plan_names(cifar: Path, build: Any, severities: set[int]) -> None:
    stream = build(StoredCifarC(folder=cifar))
    seen = set()
    for batch in stream:
        levels = [
            (grey - 100 * NAMES.index(domain) - int(label)) // 20 + 1
            for grey, domain, label in zip(greys(batch), batch.domains, batch.labels, strict=True)
        ]
        seen |= set(levels)
    assert seen == severities


def test_clean_samples_come_from_the_original_data(cifar: Path) -> None:
    data = StoredCifarC(folder=cifar, clean=cifar / "clean")
    batches = list(continual(data, corruptions=["clean", "fog"]))
    assert set(greys(batches[0])) == {250}
    assert batches[0].domains[0] == "clean"
    redrawn = continual(data, corruptions=["fog"]).redrawn()
    assert redrawn.data is data.clean
    with pytest.raises(ValueError, match="cifar10_c holds no clean samples; pass clean="):
        next(iter(continual(StoredCifarC(folder=cifar), corruptions=["clean"])))


def test_a_hundred_classes_are_cifar100(cifar: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "fog.npy", np.load(cifar / "fog.npy"))
    np.save(tmp_path / "labels.npy", np.tile(np.arange(8) * 12, 5))
    data = StoredCifarC(folder=tmp_path)
    assert (data.name, len(data.class_names)) == ("cifar100_c", 100)


def test_what_is_not_stored_is_refused(cifar: Path) -> None:
    data = StoredCifarC(folder=cifar)
    with pytest.raises(UnknownNameError, match=r"do not hold the corruption 'foog'; did you mean 'fog'\?"):
        continual(data, corruptions=["foog"])
    with pytest.raises(ValueError, match="the data do not hold the corruption"):
        continual(data, corruptions=["snow"])
    with pytest.raises(ValueError, match="are stored and used unchanged; leave family"):
        continual(data, corruptions=["fog"], family="224")
    with pytest.raises(ValueError, match=r"nothing was published at severity 2\.5"):
        next(iter(continual(data, corruptions=["fog"], severity=2.5)))


def test_changed_pixels_change_the_digest(cifar: Path, tmp_path: Path) -> None:
    for path in cifar.glob("*.npy"):
        np.save(tmp_path / path.name, np.load(path))
    assert StoredCifarC(folder=tmp_path).digest == StoredCifarC(folder=cifar).digest
    changed = np.load(tmp_path / "fog.npy")
    changed[0] += 1
    np.save(tmp_path / "fog.npy", changed)
    assert StoredCifarC(folder=tmp_path).digest != StoredCifarC(folder=cifar).digest
    np.save(tmp_path / "fog.npy", changed[:39])
    with pytest.raises(ValueError, match="not five severities of the same samples"):
        StoredCifarC(folder=tmp_path)


def test_folders_are_read_by_domain_severity_and_sample(imagenet: Path) -> None:
    data = StoredImageNetC(folder=imagenet)
    assert (data.stored, data.labels.tolist(), data.input_spec.shape) == (NAMES, [0, 0, 1], (3, 48, 48))
    for severity in (3, 5):
        for index, batch in enumerate(continual(data, corruptions=NAMES, severity=severity)):
            assert sorted(greys(batch)) == [value(index, severity, sample) for sample in range(3)]
    with pytest.raises(ValueError, match="imagenet_c holds fog at severity 3, 5 only, not 4"):
        data.corrupted(np.array([0]), "fog", 4)
    other = StoredImageNet3DCC(folder=imagenet)
    assert other.name == "imagenet_3dcc"
    small = StoredImageNetC(folder=imagenet, resize=36, crop=32)
    assert small.corrupted(np.array([0]), "fog", 5).shape == (1, 32, 32, 3)
    assert small.digest != data.digest


def test_a_missing_file_is_named(imagenet: Path, tmp_path: Path) -> None:
    for name in ("fog", "snow"):
        (tmp_path / name / "5" / "n01").mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / name / "5" / "n01" / "a.png")
    data = StoredImageNetC(folder=tmp_path)
    (tmp_path / "snow" / "5" / "n01" / "a.png").unlink()
    with pytest.raises(ValueError, match=r"snow/5/n01/a\.png is missing, which other corruptions hold"):
        data.corrupted(np.array([0]), "snow", 5)
    with pytest.raises(ValueError, match="holds no <corruption>/<severity>/<class> folders; download ImageNet-C"):
        StoredImageNetC(folder=imagenet / "fog" / "3")


def write_clip(path: Path, level: float, samples: int = 200, rate: int = 16_000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    wavfile.write(path, rate, np.full(samples, round(level * 1000), np.int16))


def released(folder: Path, dataset: str) -> type:
    """Write one of the released sets in its layout, with two clips for WHN-L1 and TST-L2, and return its class."""
    files, layout, kind = {
        "sc2": (["cat/0.wav", "go/1.wav"], "{family}/{level}/{file}", StoredSpeechCommandsC),
        "vs": (["f1.wav", "f2.wav"], "audio_16k/{family}/{level}/{file}", StoredVocalSoundC),
        "us8": (["fold8/a.wav", "fold10/b.wav"], "audio/{family}/{level}/{file}", StoredUrbanSoundC),
        "rs": (["1.wav", "2.wav"], "{family}/{level}/{file}", StoredReefSetC),
    }[dataset]
    rate = 44_100 if dataset == "us8" else 16_000
    for index, criterion in enumerate(("WHN-L1", "TST-L2")):
        family, level = criterion.split("-")
        for sample, file in enumerate(files):
            path = folder / layout.format(family=family, level=level, file=file)
            write_clip(path, 10 * index + sample + 1, rate=rate)
    if dataset == "sc2":
        (folder / "testing_list.txt").write_text("\n".join(files))
    elif dataset == "vs":
        (folder / "datafiles").mkdir()
        listed = [{"wav": f"/x/{file}", "labels": f"/m/{index}"} for index, file in enumerate(files)]
        (folder / "datafiles" / "te.json").write_text(json.dumps({"data": listed}))
        (folder / "class_labels_indices_vs.csv").write_text("index,mid,display_name\n0,/m/0,Cough\n1,/m/1,Sigh\n")
    elif dataset == "us8":
        (folder / "metadata").mkdir()
        header = "slice_file_name,fsID,start,end,salience,fold,classID,class"
        (folder / "metadata" / "UrbanSound8K.csv").write_text(f"{header}\nb.wav,0,0,1,1,10,4,x\na.wav,0,0,1,1,8,3,x\n")
    else:
        (folder / "test_annotations.csv").write_text("id,file_name,label\n1,1.wav,boat\n2,2.wav,wave\n")
    return kind


@pytest.mark.parametrize(("dataset", "labels"), [("sc2", [17, 33]), ("vs", [0, 1]), ("us8", [3, 4]), ("rs", [0, 1])])
def test_released_audio_is_read_by_criterion(tmp_path: Path, dataset: str, labels: list[int]) -> None:
    data = released(tmp_path, dataset)(folder=tmp_path)
    assert (data.name, data.labels.tolist(), data.stored) == (f"{dataset}_c", labels, ("TST-L2", "WHN-L1"))
    stream = dhauds(data, criteria=["WHN-L1", "TST-L2"])
    assert [(batch.domains[0], batch.new_episode) for batch in stream] == [("WHN-L1", True), ("TST-L2", True)]
    for index, batch in enumerate(stream):
        levels = [round(float(clip[len(clip) // 2]) * 32.768) for clip in batch.inputs]
        assert levels == [10 * index + labels.index(int(label)) + 1 for label in batch.labels]
    assert len(list(continual(data, corruptions=["TST-L2"]))) == 1
    with pytest.raises(ValueError, match="holds no clean samples; pass clean="):
        stream.redrawn()


def test_released_audio_may_be_flac_and_adapts_to_a_draw_from_the_originals(tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    kind = released(tmp_path / "c", "sc2")
    for path in (tmp_path / "c").rglob("*.wav"):
        soundfile.write(path.with_suffix(".flac"), wavfile.read(path)[1], 16_000)
        path.unlink()
    root = tmp_path / "speech_commands"
    for number, file in enumerate(("cat/0.wav", "go/1.wav")):
        write_clip(root / file, 20 + number)
    (root / "testing_list.txt").write_text("cat/0.wav\ngo/1.wav")
    (root / "validation_list.txt").write_text("")
    stream = dhauds(kind(folder=tmp_path / "c", clean=root), criteria=["WHN-L1"])
    (evaluated,), (adapted) = stream, list(stream.redrawn())
    assert sorted(round(float(clip.max()) * 32.768) for clip in evaluated.inputs) == [1, 2]
    assert min(float(clip.abs().max()) for clip in adapted[0].inputs) > 0.5  # the originals, with noise


def test_every_stored_set_is_in_the_catalogue() -> None:
    assert {name for name in DATASETS if name.startswith("stored_")} == {
        "stored_cifar_c",
        "stored_imagenet_c",
        "stored_imagenet_c_bar",
        "stored_imagenet_3dcc",
        "stored_speech_commands_c",
        "stored_vocalsound_c",
        "stored_urbansound8k_c",
        "stored_reefset_c",
    }
