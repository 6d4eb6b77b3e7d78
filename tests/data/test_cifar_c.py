"""CIFAR-C: the rows of one severity, read on demand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from holdfast.data import CifarC, InMemoryImages
from holdfast.streams import continual


@pytest.fixture
def folder(tmp_path: Path, make_images: Callable[..., NDArray[np.uint8]]) -> Path:
    np.save(tmp_path / "gaussian_noise.npy", make_images(40))
    np.save(tmp_path / "fog.npy", 255 - make_images(40))
    np.save(tmp_path / "labels.npy", np.tile(np.arange(8, dtype=np.uint8), 5))
    return tmp_path


@pytest.mark.parametrize("severity", [1, 3, 5])
def test_the_rows_of_a_severity(folder: Path, make_images: Callable[..., NDArray[np.uint8]], severity: int) -> None:
    data = CifarC(folder=str(folder), corruption="gaussian_noise", severity=severity)
    rows = make_images(40)[8 * (severity - 1) : 8 * severity]
    assert isinstance(data.images, np.memmap)
    assert np.array_equal(data.inputs(np.array([5, 0])), rows[[5, 0]])
    assert data.labels.tolist() == list(range(8))
    assert data.name == f"cifar10_c/gaussian_noise/{severity}"
    assert data.class_names[:2] == ("airplane", "automobile")
    assert data.digest == InMemoryImages(rows, np.arange(8)).digest


def test_images_may_be_written_to(folder: Path) -> None:
    data = CifarC(folder=folder, corruption="fog")
    before = data.digest
    data.inputs(np.arange(8))[:] = 0
    assert data.digest == before


def test_the_labels_tell_which_of_the_two_it_is(folder: Path) -> None:
    np.save(folder / "labels.npy", np.tile(np.arange(8) * 12, 5))
    data = CifarC(folder=folder, corruption="fog")
    assert data.name == "cifar100_c/fog/5"
    assert len(data.class_names) == 100


def test_a_stream_shows_them_as_they_are(folder: Path) -> None:
    data = CifarC(folder=folder, corruption="fog", severity=2)
    stream = continual(data, corruptions=["clean"])
    (batch,) = stream
    shown = np.rint(batch.inputs.permute(0, 2, 3, 1).numpy() * 255).astype(np.uint8)
    assert np.array_equal(shown, data.images[batch.labels])  # sample and label are one number here
    others = [CifarC(folder=folder, corruption="fog"), CifarC(folder=folder, corruption="gaussian_noise", severity=2)]
    fingerprints = {continual(other, corruptions=["clean"]).fingerprint for other in others}
    assert stream.fingerprint not in fingerprints


def test_mistakes_are_answered_with_the_remedy(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"no corruption 'gausian_noise'; did you mean 'gaussian_noise'\?"):
        CifarC(folder=folder, corruption="gausian_noise")
    with pytest.raises(ValueError, match="nothing was published at severity 0; choose 1, 2, 3, 4 or 5"):
        CifarC(folder=folder, corruption="fog", severity=0)
    with pytest.raises(ValueError, match=r"there is no folder .*absent; download .*zenodo"):
        CifarC(folder=folder / "absent", corruption="fog")


def test_files_that_do_not_belong_together_are_refused(folder: Path) -> None:
    for labels in (np.arange(10).repeat(4), np.arange(8)):
        np.save(folder / "labels.npy", labels)
        with pytest.raises(ValueError, match=r"fog\.npy \(40 images\) and labels\.npy .* not five severities"):
            CifarC(folder=folder, corruption="fog")
    (folder / "labels.npy").unlink()
    with pytest.raises(ValueError, match=r"has no labels\.npy; download"):
        CifarC(folder=folder, corruption="fog")


def test_objects_are_not_unpickled(folder: Path) -> None:
    np.save(folder / "fog.npy", np.array([{}] * 40, object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"fog\.npy is not a numeric array .*; download it again"):
        CifarC(folder=folder, corruption="fog")
