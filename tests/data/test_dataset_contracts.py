"""The public contracts of data sets: every registered one keeps them on small files, and broken ones are caught."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from scipy.io import wavfile

from holdfast.data import DATASETS, Digits, InMemoryAudio, InMemoryImages, keywords
from holdfast.testing import check_dataset

RNG = partial(np.random.default_rng, 0)


def images(count: int, side: int = 32) -> NDArray[np.uint8]:
    return RNG().integers(0, 256, (count, side, side, 3), np.uint8)


def write_png(path: Path, pixels: NDArray[np.uint8]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, "png")


def write_wav(path: Path, level: int, rate: int = 16_000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    wavfile.write(path, rate, np.full(400, 1000 * level, np.int16))


def class_folders(folder: Path) -> dict[str, Any]:
    for row, pixels in enumerate(images(4, 36)):
        write_png(folder / f"class {row % 2}" / f"{row}.png", pixels)
    return {"folder": folder, "resize": 34, "crop": 32}


def audio_folder(folder: Path) -> dict[str, Any]:
    for row in range(4):
        write_wav(folder / f"class {row % 2}" / f"{row}.wav", row + 1)
    return {"folder": folder, "seconds": 0.05}


def audio_parquet(folder: Path) -> dict[str, Any]:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    contents = []
    for level in (1, 2, 3):
        file = io.BytesIO()
        wavfile.write(file, 16_000, np.full(400, 1000 * level, np.int16))
        contents.append({"bytes": file.getvalue(), "path": None})
    parquet.write_table(pyarrow.table({"audio": contents, "label": [0, 1, 0]}), folder / "all.parquet")
    return {"file": folder / "all.parquet"}


def cifar(folder: Path) -> dict[str, Any]:
    np.savez(folder / "test.npz", images=images(5), labels=np.arange(5))
    return {"folder": folder}


def cifar_c(folder: Path) -> dict[str, Any]:
    np.save(folder / "fog.npy", images(40))
    np.save(folder / "labels.npy", np.tile(np.arange(8, dtype=np.uint8), 5))
    return {"folder": folder, "corruption": "fog", "severity": 3}


def imagenet_c(folder: Path) -> dict[str, Any]:
    for row, pixels in enumerate(images(4)):
        write_png(folder / "fog" / "5" / f"n0{row % 2}" / f"{row}.png", pixels)
    return {"folder": folder, "corruption": "fog"}


def ccc_shards(folder: Path) -> dict[str, Any]:
    from holdfast.streams import continual, export_shards

    stream = continual(InMemoryImages(images(6), np.arange(6) % 3), corruptions=["contrast"], severity=2)
    export_shards(stream, folder)
    return {"paths": folder}


def few_keywords(folder: Path) -> dict[str, Any]:
    pytest.importorskip("espeakng_loader")
    return {"cache": folder}


def reefset(folder: Path) -> dict[str, Any]:
    index = [{"id": row, "file_name": f"{row}.wav", "label": ("wave", "boat")[row % 2]} for row in range(8)]
    for row in index:
        write_wav(folder / "full_dataset" / str(row["file_name"]), int(str(row["id"])) + 1)
    (folder / "reefset_annotations.json").write_text(json.dumps(index))
    return {"folder": folder}


def speech_commands(folder: Path) -> dict[str, Any]:
    for row, word in enumerate(("zero", "bird", "cat")):
        write_wav(folder / word / f"{row}.wav", row + 1)
    (folder / "testing_list.txt").write_text("cat/2.wav\nbird/1.wav\n")
    (folder / "validation_list.txt").write_text("zero/0.wav\n")
    return {"folder": folder}


def urbansound8k(folder: Path) -> dict[str, Any]:
    lines = ["slice_file_name,fsID,start,end,salience,fold,classID,class"]
    for row, fold in enumerate((8, 9, 10)):
        write_wav(folder / "audio" / f"fold{fold}" / f"{row}.wav", row + 1, rate=44_100)
        lines.append(f"{row}.wav,0,0,1,1,{fold},{row},x")
    (folder / "metadata").mkdir()
    (folder / "metadata" / "UrbanSound8K.csv").write_text("\n".join(lines))
    return {"folder": folder}


def cochlscene(folder: Path) -> dict[str, Any]:
    for row, scene in enumerate(("Bus", "Street")):
        write_wav(folder / "Test" / scene / f"{row}.wav", row + 1, rate=44_100)
    return {"folder": folder}


def vocalsound(folder: Path) -> dict[str, Any]:
    for row in range(2):
        write_wav(folder / "audio_16k" / f"{row}.wav", row + 1)
    listed = [{"wav": "0.wav", "labels": "/m/a"}, {"wav": "1.wav", "labels": "/m/b"}]
    (folder / "datafiles").mkdir()
    (folder / "datafiles" / "te.json").write_text(json.dumps({"data": listed}))
    (folder / "class_labels_indices_vs.csv").write_text("index,mid,display_name\n0,/m/a,Sigh\n1,/m/b,Cough\n")
    return {"folder": folder}


def stored_cifar_c(folder: Path) -> dict[str, Any]:
    (folder / "clean").mkdir()
    np.savez(folder / "clean" / "test.npz", images=images(8), labels=np.arange(8))
    return {"folder": cifar_c(folder)["folder"], "clean": folder / "clean"}


def stored_imagenet_c(folder: Path) -> dict[str, Any]:
    for row, pixels in enumerate(images(4)):
        for subfolder in ("c/fog/5", "c/snow/5", "val"):
            write_png(folder / subfolder / f"n0{row % 2}" / f"{row}.png", pixels)
    return {"folder": folder / "c", "clean": folder / "val"}


def domain_folders(folder: Path) -> dict[str, Any]:
    for row, pixels in enumerate(images(6, 36)):
        write_png(folder / ("photo", "sketch")[row % 2] / f"class {row % 3}" / f"{row}.png", pixels)
    return {"folder": folder, "resize": 34, "crop": 32}


def folders(*names: str) -> Callable[[Path], dict[str, Any]]:
    def write(folder: Path) -> dict[str, Any]:
        for row, pixels in enumerate(images(4, 36)):
            write_png(folder / names[row % 2] / f"{row}.png", pixels)
        return {"folder": folder, "resize": 34, "crop": 32}

    return write


def imagenet_d109(folder: Path) -> dict[str, Any]:
    for row, pixels in enumerate(images(6, 36)):
        write_png(folder / ("real", "sketch")[row % 2] / ("zebra", "couch", "cow")[row % 3] / f"{row}.png", pixels)
    return {"folder": folder, "resize": 34, "crop": 32}


def cifar10_1(folder: Path) -> dict[str, Any]:
    np.save(folder / "cifar10.1_v6_data.npy", images(5))
    np.save(folder / "cifar10.1_v6_labels.npy", np.arange(5))
    return {"folder": folder}


def cifar10_2(folder: Path) -> dict[str, Any]:
    np.savez(folder / "cifar102_test.npz", images=images(5), labels=np.arange(5))
    return {"folder": folder}


def iwildcam(folder: Path) -> dict[str, Any]:
    lines = ["split,location_remapped,y,filename"]
    for row, pixels in enumerate(images(4, 40)):
        write_png(folder / "train" / f"{row}.png", pixels)
        lines.append(f"{('train', 'test')[row > 0]},{row},{row % 3},{row}.png")
    (folder / "metadata.csv").write_text("\n".join(lines))
    return {"folder": folder, "side": 32}


def camelyon17(folder: Path) -> dict[str, Any]:
    lines = [",patient,node,x_coord,y_coord,tumor,slide,center,split"]
    for row, pixels in enumerate(images(6)):
        slide = f"patient_00{row}_node_1"
        write_png(folder / "patches" / slide / f"patch_{slide}_x_8_y_{row}.png", pixels)
        lines.append(f"{row},00{row},1,8,{row},{row % 2},0,2,0")
    (folder / "metadata.csv").write_text("\n".join(lines))
    return {"folder": folder}


def released(original: Callable[[Path], dict[str, Any]], below: str = "") -> Callable[[Path], dict[str, Any]]:
    """Return a function that writes an original data set, and its test clips as the criterion WHN-L1 of a released one.

    The lists of the released sets are those of the originals; ReefSet's has another format.
    """

    def write(folder: Path) -> dict[str, Any]:
        for subfolder in ("clean", "c"):
            (folder / subfolder).mkdir()
            original(folder / subfolder)
        name = original.__name__
        clean = DATASETS[name](folder=folder / "clean")
        for file in clean.files:
            write_wav(folder / "c" / below / "WHN" / "L1" / file.removeprefix(below).removeprefix("full_dataset/"), 2)
        if name == "reefset":
            rows = [
                f"{Path(file).name},{clean.class_names[k]}" for file, k in zip(clean.files, clean.labels, strict=True)
            ]
            (folder / "c" / "test_annotations.csv").write_text("\n".join(["file_name,label", *rows]))
        return {"folder": folder / "c", "clean": folder / "clean"}

    return write


# For each data set a function that writes small files and returns the options that read them.
FILES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "audio_folder": audio_folder,
    "audio_parquet": audio_parquet,
    "ccc_shards": ccc_shards,
    "camelyon17": camelyon17,
    "cifar10": cifar,
    "cifar100": cifar,
    "cifar10_1": cifar10_1,
    "cifar10_2": cifar10_2,
    "cifar_c": cifar_c,
    "cochlscene": cochlscene,
    "digits": lambda _: {},
    "domain_folder": domain_folders,
    "image_folder": class_folders,
    "imagenet_a": folders("n01498041", "n01531178"),
    "imagenet_c": imagenet_c,
    "imagenet_d109": imagenet_d109,
    "imagenet_r": folders("n01443537", "n01484850"),
    "imagenet_sketch": folders("n01440764", "n15075141"),
    "imagenet_v2": folders("0", "999"),
    "iwildcam": iwildcam,
    "keywords": few_keywords,
    "reefset": reefset,
    "speech_commands": speech_commands,
    "stored_cifar_c": stored_cifar_c,
    "stored_imagenet_3dcc": stored_imagenet_c,
    "stored_imagenet_c": stored_imagenet_c,
    "stored_imagenet_c_bar": stored_imagenet_c,
    "stored_reefset_c": released(reefset),
    "stored_speech_commands_c": released(speech_commands),
    "stored_urbansound8k_c": released(urbansound8k, "audio/"),
    "stored_vocalsound_c": released(vocalsound, "audio_16k/"),
    "urbansound8k": urbansound8k,
    "vocalsound": vocalsound,
}


@pytest.mark.parametrize("name", DATASETS.names())
def test_every_data_set_keeps_the_contracts(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert name in FILES, f"add a function that writes small files for {name!r} to FILES in {__file__}"
    monkeypatch.setattr(keywords, "WORDS", ("three", "tree"))
    monkeypatch.setattr(keywords, "VARIANTS", keywords.VARIANTS[:8])
    check_dataset(name, **FILES[name](tmp_path))


class Broken(InMemoryImages):
    """Breaks one contract, by name."""

    builds = 0

    def __init__(self, fault: str) -> None:
        super().__init__(images(6), np.arange(6) % 3, class_names=["a", "b", "c"])
        self.fault = fault
        Broken.builds += 1
        if fault == "label":
            self.labels = self.labels - 1
        if fault == "classes":
            self.class_names = ["a", "b"]
        if fault == "names":
            self.class_names = ["a", "a", "b"]
        if fault == "labels":
            self.labels = self.labels.astype(np.int32)
        if fault == "shape":
            self.images = self.images[:, :30]
        if fault == "build":
            self.images = self.images + np.uint8(Broken.builds % 7)
        if fault == "random":
            np.random.random()  # noqa: NPY002

    @property
    def digest(self) -> str:
        if self.fault == "digest":
            return f"{id(self):032x}"
        return "none" if self.fault == "words" else "0" * 32 if self.fault == "build" else super().digest

    def inputs(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        if self.fault == "type":
            return super().inputs(indices).astype(np.float32)
        if self.fault == "order":
            return super().inputs(np.sort(indices))
        if self.fault == "repeats":
            return super().inputs(np.unique(indices))
        if self.fault == "view":
            return self.images[:1].repeat(len(indices), 0) if len(indices) != 5 else self._shared(indices)
        return super().inputs(indices)

    def _shared(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        return self.images[: len(indices)]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("label", "has a label -1"),
        ("classes", "has a label 2 but 2 class names"),
        ("names", "two classes of one name"),
        ("labels", "are int32, not int64"),
        ("shape", "but its input_spec is"),
        ("type", "but its input_spec is"),
        ("order", "depend on the other indices"),
        ("repeats", "depend on the other indices|index 3 is out of bounds"),
        ("view", "depend on the other indices|changes the data"),
        ("digest", "digest of images"),
        ("words", "fewer than 16"),
        ("build", "differ after a second build"),
        ("random", "global generator of numpy"),
    ],
)
def test_a_data_set_that_breaks_a_contract_is_caught(fault: str, words: str) -> None:
    check_dataset(Broken, fault="")
    with pytest.raises((AssertionError, IndexError), match=words):
        check_dataset(Broken, fault=fault)


def test_loud_audio_and_a_missing_rate_are_caught() -> None:
    loud = np.full((3, 80), 2.0, np.float32)
    with pytest.raises(AssertionError, match=r"not in \[-1, 1\]"):
        check_dataset(lambda: InMemoryAudio(loud, np.arange(3), sample_rate=8_000))


def test_a_data_set_may_be_given_as_a_class() -> None:
    check_dataset(Digits, split="validation")
