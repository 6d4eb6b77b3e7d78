"""Image views: recorded draws, the pipeline step by step, and the effect of each step."""

from __future__ import annotations

import colorsys
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from holdfast.blocks.views import VIEWS, Draw, apply_view, draw_view, named_view
from holdfast.registry import UnknownNameError

STREAM = Path(__file__).resolve().parents[1] / "conformance" / "golden" / "stream.npz"
STILL = Draw({}, 0.0, (0, 0), 1.0, None, False, None)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(*shape: int) -> Tensor:
    return torch.rand(*shape, generator=generator(7))


def test_parameters_are_drawn_in_the_official_order() -> None:
    draw = draw_view((8, 3, 32, 32), generator(4))
    expected = {
        "brightness": 0.6057556867599487,
        "hue": -0.05532457306981087,
        "contrast": 1.2957366704940796,
        "gamma": 1.2478678226470947,
        "saturation": 1.1185790300369263,
    }
    assert list(draw.colours.items()) == list(expected.items())
    assert (draw.angle_degrees, draw.scale, draw.blur_sigma) == (
        14.231659889221191,
        1.085252046585083,
        0.23728510737419128,
    )
    assert (draw.shift_pixels, draw.flip) == ((-1, -2), False)
    # Without blur, the flip is drawn one number earlier.
    assert draw_view((8, 3, 32, 32), generator(4), softened=False).flip


@pytest.mark.parametrize(("kind", "name"), [("cotta", "tta"), ("roid", "roid")])
def test_views_are_those_of_the_official_code(kind: str, name: str, golden_folder: Path) -> None:
    with np.load(STREAM) as stream, np.load(golden_folder / "traces" / "augment.npz") as recorded:
        inputs = torch.from_numpy(stream["iid_x"][:8]).permute(0, 3, 1, 2).float() / 255
        for facts in json.loads((golden_folder / "traces" / "augment.json").read_text())["draws"][kind]:
            draw = draw_view(inputs.shape, generator(facts["seed"]), softened=kind == "cotta")
            assert {**draw.colours, "angle": draw.angle_degrees, "scale": draw.scale}.items() <= facts.items()
            assert (*draw.shift_pixels, draw.flip) == (facts["tx"], facts["ty"], facts["flip"])
            view = VIEWS[name](inputs, generator(facts["seed"]))
            expected = torch.from_numpy(recorded[f"{kind}_{facts['seed']}"])
            torch.testing.assert_close(view[: len(expected)], expected, rtol=0, atol=1e-5)


def slowly(inputs: Tensor, draw: Draw, padding: str) -> Tensor:
    """Pad, rotate, blur, crop and flip one after the other, on the whole padded image."""
    height, width = inputs.shape[-2:]
    canvas = F.pad(inputs, [width // 2] * 2 + [height // 2] * 2, padding)
    rows, columns = canvas.shape[-2:]
    cos, sin = (turn(math.radians(draw.angle_degrees)) / draw.scale for turn in (math.cos, math.sin))
    right, down = draw.shift_pixels
    turned = torch.tensor([[cos, sin], [-sin, cos]]) @ torch.tensor([-float(right), -float(down)])
    matrix = torch.tensor(
        [[cos, sin * rows / columns, 2 * turned[0] / columns], [-sin * columns / rows, cos, 2 * turned[1] / rows]]
    )
    grid = F.affine_grid(matrix.expand(len(inputs), 2, 3), list(canvas.shape), align_corners=False)
    canvas = F.grid_sample(canvas, grid, align_corners=False)
    if draw.blur_sigma is not None:
        line = torch.exp(-0.5 * (torch.arange(-2.0, 3.0) / draw.blur_sigma) ** 2)
        square = torch.outer(line, line) / line.sum() ** 2
        canvas = F.conv2d(canvas, square.expand(inputs.shape[1], 1, 5, 5), padding=2, groups=inputs.shape[1])
    top, left = (rows - height) // 2, (columns - width) // 2
    canvas = canvas[..., top : top + height, left : left + width]
    return canvas.flip(-1) if draw.flip else canvas


@pytest.mark.parametrize("shape", [(2, 3, 32, 32), (1, 3, 33, 21), (2, 1, 16, 40)])
@pytest.mark.parametrize("softened", [True, False])
def test_one_sampling_equals_pad_turn_blur_crop(shape: tuple[int, ...], softened: bool) -> None:
    inputs = images(*shape)
    edges, padding = ("border", "replicate") if softened else ("reflection", "reflect")
    for seed in range(4):
        draw = replace(draw_view(shape, generator(seed), softened=softened), colours={}, noise=None)
        view = apply_view(inputs, draw, padding=edges)  # type: ignore[arg-type]
        torch.testing.assert_close(view, slowly(inputs, draw, padding), rtol=0, atol=1e-5)


def test_a_draw_of_nothing_changes_nothing() -> None:
    inputs = images(2, 3, 9, 8)
    torch.testing.assert_close(apply_view(inputs, STILL), inputs, rtol=0, atol=1e-6)
    assert VIEWS["identity"](inputs, generator()) is inputs


def test_a_centre_crop_is_resized_from_the_middle() -> None:
    inputs = images(2, 3, 32, 32)
    expected = torch.nn.functional.interpolate(inputs[..., 2:31, 2:31], (32, 32), mode="bilinear")  # 29 px from 2
    assert torch.equal(VIEWS["centre_crop"](inputs, generator()), expected)
    assert torch.equal(VIEWS["flipped_crop"](inputs, generator()), expected.flip(-1))
    assert torch.equal(VIEWS["flip"](inputs, generator()), inputs.flip(-1))
    assert VIEWS["centre_crop"](images(2, 3, 20, 32), generator()).shape == (2, 3, 20, 32)


def test_a_shift_is_to_the_right_and_down() -> None:
    inputs = torch.zeros(1, 3, 9, 9)
    inputs[..., 4, 4] = 1.0
    moved = apply_view(inputs, replace(STILL, shift_pixels=(2, -1)))
    assert moved[0, 0].argmax() == 3 * 9 + 6


def test_hue_turns_the_colour_circle() -> None:
    inputs = torch.cat([images(1, 3, 6, 6), torch.full((1, 3, 6, 6), 0.3)])  # grey has no hue
    view = apply_view(inputs, replace(STILL, colours={"hue": 0.05}))
    for before, after in zip(
        inputs.permute(0, 2, 3, 1).reshape(-1, 3), view.permute(0, 2, 3, 1).reshape(-1, 3), strict=True
    ):
        hue, saturation, value = colorsys.rgb_to_hsv(*before.tolist())
        assert after.tolist() == pytest.approx(colorsys.hsv_to_rgb((hue + 0.05) % 1, saturation, value), abs=1e-5)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("brightness", 1.4, [0.28, 0.7, 1.0]),
        ("contrast", 0.5, [0.28611, 0.43611, 0.58611]),  # halfway to the mean grey, 0.37222
        ("saturation", 0.0, [0.44448, 0.44448, 0.44448]),
        ("gamma", 2.0, [0.04, 0.25, 0.64]),
    ],
)
def test_colours(name: str, value: float, expected: list[float]) -> None:
    inputs = torch.tensor([0.2, 0.5, 0.8]).view(1, 3, 1, 1).expand(1, 3, 4, 4).clone()
    if name == "contrast":
        inputs[..., :2] = torch.tensor([0.3]).expand(1, 3, 4, 2)  # the mean is over the whole image
    view = apply_view(inputs, replace(STILL, colours={name: value}))
    assert view[0, :, 3, 3].tolist() == pytest.approx(expected, abs=1e-5)


def test_all_images_share_one_draw_and_only_noise_is_their_own() -> None:
    inputs = images(1, 3, 16, 16).expand(2, 3, 16, 16)
    first, second = VIEWS["roid"](inputs, generator())
    assert torch.equal(first, second)
    first, second = VIEWS["tta"](inputs, generator())
    assert 0 < (first - second).abs().mean() < 0.02


@pytest.mark.parametrize("name", ["tta", "roid"])
def test_a_view_depends_on_its_generator_alone_and_leaves_the_inputs(name: str) -> None:
    inputs = images(2, 3, 16, 16) * 1.5 - 0.2  # beyond [0, 1] at both ends
    before = inputs.clone()
    view = VIEWS[name](inputs, generator(1))
    torch.rand(3)
    assert torch.equal(view, VIEWS[name](inputs, generator(1)))
    assert not torch.equal(view, VIEWS[name](inputs, generator(2)))
    assert torch.equal(inputs, before)
    assert view.min() >= 0
    assert view.max() <= 1


def test_other_channels_do_without_hue_and_saturation() -> None:
    inputs = images(2, 1, 16, 16)
    assert torch.equal(
        apply_view(inputs, replace(STILL, colours={"hue": 0.05, "saturation": 0.5})), apply_view(inputs, STILL)
    )
    assert VIEWS["tta"](images(2, 4, 16, 16).double(), generator()).dtype == torch.float64


def test_what_is_no_image_is_refused_with_a_way_out() -> None:
    with pytest.raises(ValueError, match="view='identity'"):
        VIEWS["tta"](torch.rand(2, 1600), generator())


def test_a_view_is_found_by_name_or_given() -> None:
    def half(inputs: Tensor, _generator: torch.Generator) -> Tensor:
        return inputs / 2

    assert named_view("roid") == ("roid", VIEWS["roid"])
    assert named_view(half) == ("custom", half)
    with pytest.raises(UnknownNameError, match="did you mean 'roid'"):
        named_view("rod")
