"""CIFAR is read from every published layout except pickles."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from holdfast.data import DATASETS, Cifar10, Cifar100, InMemoryImages, cifar_files
from holdfast.data.cifar import CIFAR10, CIFAR100

REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "cifar10"
BINARY_FILES = {
    "cifar10": {"train": [f"data_batch_{n}.bin" for n in (1, 2, 3, 4, 5)], "test": ["test_batch.bin"]},
    "cifar100": {"train": ["train.bin"], "test": ["test.bin"]},
}
DOWNLOADED = {
    "cifar10": ("cifar-10-batches-bin", "plain_text", ["label"]),
    "cifar100": ("cifar-100-binary", "cifar100", ["fine_label", "coarse_label"]),
}
Pixels = NDArray[np.uint8]


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of decoded images."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("HOLDFAST_CACHE", str(folder))
    return folder


def save_binary(folder: Path, name: str, split: str, images: Pixels, labels: NDArray[np.int64]) -> None:
    files = BINARY_FILES[name][split]
    for file, rows in zip(files, np.array_split(np.arange(len(images)), len(files)), strict=True):
        content = b""
        for row in rows:
            content += bytes([7, labels[row]] if name == "cifar100" else [labels[row]])  # 7: the coarse label
            content += b"".join(images[row, :, :, channel].tobytes() for channel in range(3))
        (folder / file).write_bytes(content)


def save_parquet(path: Path, name: str, images: list[bytes], labels: NDArray[np.int64]) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    fine, *others = DOWNLOADED[name][2]
    columns = {
        "img": [{"bytes": content, "path": None} for content in images],
        fine: labels.tolist(),
        **{other: [7] * len(labels) for other in others},
    }
    parquet.write_table(pyarrow.table(columns), path)


def png(pixels: Pixels) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


def save(layout: str, folder: Path, name: str, split: str, images: Pixels, labels: NDArray[np.int64]) -> None:
    binary_folder, parquet_folder, _ = DOWNLOADED[name]
    if layout.startswith("downloaded"):
        folder /= binary_folder if layout == "downloaded binary" else parquet_folder
        folder.mkdir()
    if layout.endswith("binary"):
        save_binary(folder, name, split, images, labels)
    elif layout.endswith("parquet"):
        file = f"{split}.parquet" if layout == "parquet" else f"{split}-00000-of-00001.parquet"
        save_parquet(folder / file, name, [png(pixels) for pixels in images], labels)
    else:
        np.savez(folder / f"{split}.npz", images=images, labels=labels.astype(np.uint8))


@pytest.mark.parametrize("layout", ["binary", "downloaded binary", "parquet", "downloaded parquet", "npz"])
@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_every_layout_gives_the_same_data(
    tmp_path: Path, make_images: Callable[..., Pixels], name: str, split: str, layout: str
) -> None:
    images, labels = make_images(10), np.arange(10)[::-1] * (11 if name == "cifar100" else 1)
    save(layout, tmp_path, name, split, images, labels)
    data = DATASETS[name](split, folder=str(tmp_path))
    assert np.array_equal(data.inputs(np.arange(10)), images)
    assert data.labels.tolist() == labels.tolist()
    assert data.digest == InMemoryImages(images, labels).digest
    assert data.name == f"{name}/{split}"
    assert data.input_spec.shape == (3, 32, 32)


def test_class_names() -> None:
    for version, classes in ((CIFAR10, 10), (CIFAR100, 100)):
        assert list(version.class_names) == sorted(set(version.class_names))
        assert len(version.class_names) == classes


@pytest.mark.parametrize(
    ("kind", "file"),
    [(Cifar10, "cifar-10-batches-py/test_batch"), (Cifar10, "test_batch"), (Cifar100, "cifar-100-python/test")],
)
def test_pickles_are_refused_and_the_alternatives_named(tmp_path: Path, kind: type, file: str) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_bytes(b"\x80\x04.")
    with pytest.raises(ValueError, match=r"test(_batch)? is a pickle.*binary\.tar\.gz.*Parquet.*test\.npz"):
        kind(folder=tmp_path)


def test_an_array_of_objects_is_not_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "test.npz", images=np.array([{}], object), labels=np.zeros(1))
    with pytest.raises(ValueError, match=r"test\.npz has no numeric arrays.*savez"):
        Cifar10(folder=tmp_path)


def test_what_is_not_there_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no folder .*absent; download and unpack https://"):
        Cifar10(folder=tmp_path / "absent")
    with pytest.raises(ValueError, match=r"does not hold the train split of cifar100; download .*cifar-100-binary"):
        Cifar100("train", folder=tmp_path)
    with pytest.raises(ValueError, match=r"no split 'validation'; choose train or test"):
        Cifar10("validation", folder=tmp_path)


def test_damaged_files_are_named(tmp_path: Path, make_images: Callable[..., Pixels]) -> None:
    save_binary(tmp_path, "cifar10", "train", make_images(10), np.arange(10))
    (tmp_path / "data_batch_4.bin").write_bytes(bytes(3072))
    with pytest.raises(ValueError, match=r"data_batch_4\.bin has 3072 bytes, not a multiple of 3073"):
        Cifar10("train", folder=tmp_path)
    (tmp_path / "data_batch_3.bin").unlink()
    with pytest.raises(ValueError, match=r"data_batch_3\.bin is missing"):
        Cifar10("train", folder=tmp_path)
    (tmp_path / "test.npz").write_bytes(b"PK\x03\x04 not a zip file")
    with pytest.raises(ValueError, match=r"test\.npz has no numeric arrays"):
        Cifar10(folder=tmp_path)
    np.savez(tmp_path / "test.npz", images=make_images(2))
    with pytest.raises(ValueError, match=r"test\.npz has no labels; save it with images, labels"):
        Cifar10(folder=tmp_path)


def test_parquet_is_decoded_once_for_all_processes(
    tmp_path: Path, make_images: Callable[..., Pixels], monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    images, labels = make_images(4, 32), np.arange(4)
    save("parquet", tmp_path, "cifar10", "test", images, labels)
    first = Cifar10(folder=tmp_path)
    monkeypatch.setattr(cifar_files, "decode_image", lambda *_: pytest.fail("decoded again"))
    again = Cifar10(folder=tmp_path)
    assert np.array_equal(again.images, images)
    assert again.digest == first.digest
    assert not again.images.flags.writeable
    assert len(list(cache.glob("decoded/*/images.npy"))) == 1


def test_other_files_and_a_cache_that_cannot_be_written_are_decoded(
    tmp_path: Path, make_images: Callable[..., Pixels], monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    images, labels = make_images(4, 32), np.arange(4)
    for changed in (images, 255 - images):
        save("parquet", tmp_path, "cifar10", "test", changed, labels)
        assert np.array_equal(Cifar10(folder=tmp_path).images, changed)
    (cache / "file").write_text("")
    monkeypatch.setenv("HOLDFAST_CACHE", str(cache / "file"))
    assert np.array_equal(Cifar10(folder=tmp_path).images, 255 - images)


def test_damaged_parquet_is_named(tmp_path: Path, make_images: Callable[..., Pixels]) -> None:
    good = png(make_images(1)[0])
    save_parquet(tmp_path / "test.parquet", "cifar10", [good, good[:200]], np.arange(2))
    with pytest.raises(ValueError, match=r"row 1 of .*test\.parquet is not a readable image"):
        Cifar10(folder=tmp_path)
    with pytest.raises(ValueError, match=r"test\.parquet has no column fine_label; it needs img, fine_label"):
        Cifar100(folder=tmp_path)
    (tmp_path / "test.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(ValueError, match=r"test\.parquet is not a readable Parquet file"):
        Cifar10(folder=tmp_path)


def test_labels_of_another_data_set_are_refused(tmp_path: Path, make_images: Callable[..., Pixels]) -> None:
    np.savez(tmp_path / "test.npz", images=make_images(2), labels=np.array([3, 10]))
    with pytest.raises(ValueError, match=r"cifar10/test has the label 10 but 10 class names"):
        Cifar10(folder=tmp_path)


def test_without_pyarrow_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "test.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match=r'pip install "holdfast\[parquet\]"'):
        Cifar10(folder=tmp_path)


def test_importing_the_room_is_cheap() -> None:
    code = "import sys, holdfast.data; sys.exit(bool({'torch', 'sklearn', 'pyarrow'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.skipif(not REAL.is_dir(), reason="the real images are not on this machine")
def test_the_real_test_split() -> None:
    pytest.importorskip("pyarrow")
    data = Cifar10(folder=REAL)
    assert data.images.shape == (10_000, 32, 32, 3)
    assert np.bincount(data.labels).tolist() == [1000] * 10
    # Skies are brighter than frogs: labels and images belong together.
    brightness = [data.images[data.labels == data.class_names.index(name)].mean() for name in ("airplane", "frog")]
    assert brightness[0] > brightness[1] + 10
