"""ImageNet-C: the class folders of one corruption at one severity."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from holdfast.data import ImageNetC
from holdfast.streams import continual


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for brightness, subfolder in enumerate(("fog/1", "fog/5", "gaussian_noise/5")):
        for synset in ("n01440764", "n01443537"):
            (tmp_path / subfolder / synset).mkdir(parents=True)
            grey = Image.new("RGB", (32, 32), (50 * brightness,) * 3)
            grey.save(tmp_path / subfolder / synset / "ILSVRC2012_val_00000001.JPEG", quality=85)
    return tmp_path


def test_the_images_of_a_corruption_and_a_severity(folder: Path) -> None:
    loaded = [
        ImageNetC(folder=str(folder), corruption=corruption, severity=severity)
        for corruption, severity in (("fog", 1), ("fog", 5), ("gaussian_noise", 5))
    ]
    assert [int(data.inputs(np.array([1])).mean()) for data in loaded] == [0, 50, 100]
    assert [data.name for data in loaded] == ["imagenet_c/fog/1", "imagenet_c/fog/5", "imagenet_c/gaussian_noise/5"]
    assert len({data.digest for data in loaded}) == 3
    assert loaded[0].class_names == ("n01440764", "n01443537")
    (batch,) = continual(loaded[1], corruptions=["clean"])
    assert sorted(batch.labels.tolist()) == [0, 1]


def test_mistakes_are_answered_with_the_remedy(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"no corruption 'foog'; did you mean 'fog'\?"):
        ImageNetC(folder=folder, corruption="foog")
    with pytest.raises(ValueError, match=r"there is no folder .*fog/2; download ImageNet-C"):
        ImageNetC(folder=folder, corruption="fog", severity=2)
    with pytest.raises(ValueError, match="nothing was published at severity 6"):
        ImageNetC(folder=folder, corruption="fog", severity=6)
    with pytest.raises(ValueError, match=r"there is no folder .*absent; download ImageNet-C"):
        ImageNetC(folder=folder / "absent", corruption="fog")
