"""The torch renderer: the pixels of the numpy renderer, but for rounding, and a fingerprint of its own."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from holdfast.benchmark.suite import parse_suite
from holdfast.corruptions import CORRUPTIONS
from holdfast.corruptions.torch_formulas import FORMULAS, corrupt
from holdfast.data import Digits
from holdfast.randomness import seeded_rng
from holdfast.streams import STREAMS, Calibration, Transition
from holdfast.streams.rendering import Rendering

NAMES = ["gaussian_noise", "defocus_blur", "jpeg_compression"]  # the last has no formula


def blocks(side: int, count: int) -> np.ndarray:
    """Return images of even blocks, some grey and some black."""
    levels = np.random.default_rng(0).integers(0, 256, (count, side // 4 + 1, side // 4 + 1, 3), dtype=np.uint8)
    images = np.ascontiguousarray(levels.repeat(4, 1).repeat(4, 2)[:, :side, :side])
    images[0, :5, :5], images[0, 6:8] = 77, 0
    return images


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_gives_the_pixels_of_numpy(name: str) -> None:
    for side, count in ((32, 4), (100, 2)):
        images = blocks(side, count)
        for severity in (1, 3, 5):
            expected, actual = (
                render(images, severity, [seeded_rng(0, name, index) for index in range(count)])
                for render in (CORRUPTIONS[name].batch, lambda *given: corrupt(CORRUPTIONS[name], *given))
            )
            gaps = np.abs(expected.astype(int) - actual)
            assert gaps.max() <= 1
            assert (gaps > 0).mean() <= 1e-3
            assert (actual != images).any()


def test_the_renderer_is_part_of_the_stream() -> None:
    usual, other = (
        STREAMS["continual"](Digits(), corruptions=NAMES, samples_per_domain=6, renderer=renderer)
        for renderer in ("numpy", "torch")
    )
    assert usual.fingerprint == STREAMS["continual"](Digits(), corruptions=NAMES, samples_per_domain=6).fingerprint
    assert usual.fingerprint != other.fingerprint
    assert other.spec["renderer"] == "torch"
    assert "renderer" not in usual.spec
    assert torch.allclose(usual.render(0, 18).inputs, other.render(0, 18).inputs, atol=1.01 / 255)
    assert torch.equal(other.render(4, 9).inputs, other.render(0, 18).inputs[4:9])  # whatever the batch


def test_walks_can_be_rendered_with_torch() -> None:
    path = Transition("gaussian_noise", "contrast", ((2, 0), (2, 1), (1, 1), (1, 2), (0, 2)), (40.0,) * 5)
    usual, other = (
        STREAMS["ccc"](Digits(), calibration=Calibration((path,), 40.0), images_per_step=3, renderer=renderer)
        for renderer in ("numpy", "torch")
    )
    assert "renderer" not in usual.spec
    assert other.spec["renderer"] == "torch"
    assert usual.fingerprint != other.fingerprint
    assert torch.allclose(usual.render(0, 15).inputs, other.render(0, 15).inputs, atol=1.01 / 255)


def test_a_suite_names_its_renderer() -> None:
    suite = """\
name: rendered
models: [digits_resnet]
recipes: [source]
streams: [{name: continual, data: digits, corruptions: [fog], samples_per_domain: 8, renderer: torch}]
"""
    (job,) = parse_suite(suite).jobs()
    assert job.stream.options["renderer"] == "torch"


def test_an_unknown_renderer_is_refused() -> None:
    with pytest.raises(ValueError, match="renderer of a rendering must be 'numpy' or 'torch'"):
        Rendering(renderer="cupy")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="numpy renderer has no device"):
        Rendering(device="cuda")
