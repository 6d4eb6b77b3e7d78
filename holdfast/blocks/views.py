"""Views: random augmentations of the inputs under which predictions should not change.

A view is a function (inputs, generator) -> inputs. The image views expect values in [0, 1], before any normalisation,
and draw every parameter once per call: all images of a batch get the same rotation, shift and colours. Audio clips are
shifted in time, each by its own draw.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from holdfast.registry import Registry

View: TypeAlias = Callable[[Tensor, Generator], Tensor]

VIEWS: Registry[View] = Registry("view", "views")

GREY = (0.2989, 0.587, 0.114)  # weights of red, green and blue in brightness
COLOUR_RANGES = {
    "brightness": (0.6, 1.4),
    "contrast": (0.7, 1.3),
    "saturation": (0.5, 1.5),
    "hue": (-0.06, 0.06),  # share of the colour circle
    "gamma": (0.7, 1.3),
}
SHIFT_SHARE = 1 / 16  # of a side after padding by half of it at both ends; rounded to whole pixels
NOISE_STD = 0.005
CROP_SHARE = 0.9  # of each side
AUDIO_SHIFT_SHARE = 0.17  # of a clip, at most


@dataclass(frozen=True)
class Draw:
    """The drawn parameters of one call; without softening there is neither blur nor noise."""

    colours: Mapping[str, float]  # operation -> its value, in the order in which they are applied
    angle_degrees: float
    shift_pixels: tuple[int, int]  # to the right, down
    scale: float
    blur_sigma: float | None
    flip: bool
    noise: Tensor | None  # of the inputs' shape


def draw_view(shape: Sequence[int], generator: Generator, *, softened: bool = True) -> Draw:
    """Draw the parameters for inputs of this shape, in the order of the official code.

    >>> draw = draw_view((8, 3, 32, 32), torch.Generator().manual_seed(0))
    >>> draw.shift_pixels, round(draw.angle_degrees, 3), draw.flip
    ((-1, -1), 3.969, True)
    """
    _check_image(shape)
    height, width = shape[-2:]

    def uniform(low: float, high: float) -> float:
        return float(torch.empty(1, device=generator.device).uniform_(low, high, generator=generator))

    names = list(COLOUR_RANGES)
    order = torch.randperm(len(names), generator=generator, device=generator.device).tolist()
    colours = {names[index]: uniform(*COLOUR_RANGES[names[index]]) for index in order}
    angle = uniform(-15.0, 15.0)
    across, down = (SHIFT_SHARE * (side + 2 * (side // 2)) for side in (width, height))
    shift = round(uniform(-across, across)), round(uniform(-down, down))
    scale = uniform(0.9, 1.1)
    sigma = uniform(0.001, 0.5) if softened else None
    flip = bool(torch.rand(1, generator=generator, device=generator.device) < 0.5)
    noise = NOISE_STD * torch.randn(*shape, generator=generator, device=generator.device) if softened else None
    return Draw(colours, angle, shift, scale, sigma, flip, noise)


def apply_view(inputs: Tensor, draw: Draw, *, padding: Literal["border", "reflection"] = "border") -> Tensor:
    """Apply drawn parameters to images (batch, channels, height, width); `padding` fills pixels beyond the edges.

    Padding, rotating and cropping are one bilinear sampling of the pixels that the crop and the blur need. Saturation
    and hue apply to images with three channels only.
    """
    _check_image(inputs.shape)
    images = inputs.clamp(0, 1)
    for name, value in draw.colours.items():
        if images.shape[1] == 3 or name not in ("saturation", "hue"):
            images = _COLOUR_STEPS[name](images, value)
    images = _turn(images, draw, padding)
    if draw.blur_sigma is not None:
        images = _blur(images, draw.blur_sigma)
    if draw.flip:
        images = images.flip(-1)
    if draw.noise is not None:
        images = images + draw.noise.to(images)
    return images.clamp(0, 1)


@VIEWS.register("tta")
def tta(inputs: Tensor, generator: Generator) -> Tensor:
    """Apply colour jitter, rotation, shift, scale, blur, flip and noise (Wang et al., CVPR 2022).

    >>> tta(torch.rand(2, 3, 32, 32), torch.Generator().manual_seed(0)).shape
    torch.Size([2, 3, 32, 32])
    """
    return apply_view(inputs, draw_view(inputs.shape, generator))


@VIEWS.register("roid")
def roid(inputs: Tensor, generator: Generator) -> Tensor:
    """Apply colour jitter, rotation, shift, scale and flip, mirrored at the edges (Marsden et al., WACV 2024)."""
    return apply_view(inputs, draw_view(inputs.shape, generator, softened=False), padding="reflection")


@VIEWS.register("identity")
def identity(inputs: Tensor, _generator: Generator) -> Tensor:
    """Return the inputs unchanged."""
    return inputs


@VIEWS.register("flip")
def flip(inputs: Tensor, _generator: Generator) -> Tensor:
    """Mirror images from left to right (Ma et al., ICLR 2026)."""
    _check_image(inputs.shape)
    return inputs.flip(-1)


@VIEWS.register("centre_crop")
def centre_crop(inputs: Tensor, _generator: Generator) -> Tensor:
    """Enlarge the middle of images, 90 % of each side, to their full size (Ma et al., ICLR 2026).

    >>> centre_crop(torch.rand(2, 3, 32, 32), torch.Generator()).shape
    torch.Size([2, 3, 32, 32])
    """
    _check_image(inputs.shape)
    height, width = (round(CROP_SHARE * side) for side in inputs.shape[-2:])
    top, left = (round((side - kept) / 2) for side, kept in zip(inputs.shape[-2:], (height, width), strict=True))
    middle = inputs[..., top : top + height, left : left + width]
    return F.interpolate(middle, inputs.shape[-2:], mode="bilinear", align_corners=False)


@VIEWS.register("flipped_crop")
def flipped_crop(inputs: Tensor, generator: Generator) -> Tensor:
    """Enlarge the middle of images and mirror it (Ma et al., ICLR 2026)."""
    return flip(centre_crop(inputs, generator), generator)


@VIEWS.register("shift")
def shift(inputs: Tensor, generator: Generator) -> Tensor:
    """Shift audio circularly in time by up to 17 % in either direction (Shao et al., arXiv 2511.18421)."""
    return shifted_either_way(inputs, generator, share=AUDIO_SHIFT_SHARE)


def shifted_either_way(inputs: Tensor, generator: Generator, *, share: float) -> Tensor:
    """Shift each sample circularly along its last axis, in either direction by at most `share` of its length."""
    later = torch.rand(len(inputs), generator=generator, device=generator.device) < 0.5
    steps = draw_shifts(inputs.shape, generator, share=share)
    return circular_shift(inputs, torch.where(later, steps, -steps))


def draw_shifts(shape: Sequence[int], generator: Generator, *, share: float = AUDIO_SHIFT_SHARE) -> Tensor:
    """Draw a shift for each sample, at most `share` of the length of its last axis, (batch,)."""
    drawn = torch.rand(shape[0], generator=generator, device=generator.device)
    return (drawn * share * shape[-1]).long()


def circular_shift(inputs: Tensor, steps: Tensor) -> Tensor:
    """Shift each sample circularly by its number of steps along the last axis.

    >>> circular_shift(torch.tensor([[1, 2, 3, 4], [1, 2, 3, 4]]), torch.tensor([1, -1])).tolist()
    [[4, 1, 2, 3], [2, 3, 4, 1]]
    """
    length = inputs.shape[-1]
    origins = (torch.arange(length, device=inputs.device) - steps.to(inputs.device).unsqueeze(1)) % length
    axes = [1] * (inputs.dim() - 2)
    return inputs.gather(-1, origins.view(len(inputs), *axes, length).expand_as(inputs))


def named_view(
    view: str | View, kind: Literal["image", "audio", "other"] = "image", trial: Tensor | None = None
) -> tuple[str, View]:
    """Return the name of a view, "custom" for a function, and the view itself.

    The published views are for images; for audio they are replaced by "shift" (ours). A view that cannot take the trial
    inputs is refused now, not in the middle of a stream.

    >>> named_view("identity")[0], named_view("tta", "audio")[0], named_view(lambda inputs, generator: inputs / 2)[0]
    ('identity', 'shift', 'custom')
    """
    if not isinstance(view, str):
        return "custom", view
    name = "shift" if kind == "audio" and view in ("tta", "roid") else view
    if trial is not None and name != "identity":
        if not trial.is_floating_point():
            raise ValueError(
                f"the view {name!r} needs floating-point inputs, and the network takes {trial.dtype}; choose "
                "view='identity', or a method without views, such as 'tent' or 'eta'"
            )
        VIEWS[name](trial, torch.Generator())
    return name, VIEWS[name]


def _check_image(shape: Sequence[int]) -> None:
    if len(shape) != 4:
        raise ValueError(
            f"this view needs images of shape (batch, channels, height, width), got {tuple(shape)}; choose "
            "view='identity', or pass a function (inputs, generator) -> inputs"
        )


def _grey(images: Tensor) -> Tensor:
    """Return brightness, (batch, 1, height, width)."""
    if images.shape[1] != 3:
        return images.mean(1, keepdim=True)
    red, green, blue = images.split(1, 1)
    grey: Tensor = GREY[0] * red + GREY[1] * green + GREY[2] * blue
    return grey


def _brightness(images: Tensor, factor: float) -> Tensor:
    return (images * factor).clamp_(0, 1)


def _contrast(images: Tensor, factor: float) -> Tensor:
    mean = _grey(images).mean((1, 2, 3), keepdim=True)
    return mean.lerp(images, factor).clamp_(0, 1)


def _saturation(images: Tensor, factor: float) -> Tensor:
    return _grey(images).lerp(images, factor).clamp_(0, 1)


def _gamma(images: Tensor, gamma: float) -> Tensor:
    return images.clamp(1e-8, 1).pow_(gamma)


def _hue(images: Tensor, shift: float) -> Tensor:
    """Rotate the hue at constant value and chroma; each channel is a trapezoidal function of the hue."""
    red, green, blue = images.unbind(1)
    value = images.amax(1)  # (batch, height, width)
    chroma = value - images.amin(1)
    safe = chroma.clamp_min(torch.finfo(images.dtype).tiny)  # grey has no hue; any value works
    green_or_blue = torch.where(value == green, 2 + (blue - red) / safe, 4 + (red - green) / safe)
    hue = torch.where(value == red, (green - blue) / safe, green_or_blue)  # in sixths of the circle
    offsets = torch.tensor([5.0, 3.0, 1.0], device=images.device, dtype=images.dtype).view(3, 1, 1)
    angle = (hue.unsqueeze(1) + (offsets + 6 * shift)).remainder_(6)
    dip = torch.minimum(angle, 4 - angle).clamp_(0, 1)
    return (value.unsqueeze(1) - chroma.unsqueeze(1) * dip).clamp_(0, 1)


_COLOUR_STEPS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "brightness": _brightness,
    "contrast": _contrast,
    "saturation": _saturation,
    "hue": _hue,
    "gamma": _gamma,
}


def _turn(images: Tensor, draw: Draw, padding: str) -> Tensor:
    """Rotate, shift and scale about the centre; if a blur follows, with two more pixels on each side for it."""
    batch, channels, height, width = images.shape
    margin = 0 if draw.blur_sigma is None else 2
    x = torch.arange(-margin, width + margin, device=images.device, dtype=images.dtype)
    y = torch.arange(-margin, height + margin, device=images.device, dtype=images.dtype)
    right = x - (width - 1) / 2 - draw.shift_pixels[0]
    down = (y - (height - 1) / 2 - draw.shift_pixels[1]).unsqueeze(1)
    cos, sin = (turn(math.radians(draw.angle_degrees)) / draw.scale for turn in (math.cos, math.sin))
    # Source coordinates of each pixel; -1 and 1 are the centres of the outermost pixels.
    from_x = (cos * right + sin * down) * (2 / max(width - 1, 1))
    from_y = (cos * down - sin * right) * (2 / max(height - 1, 1))
    grid = torch.stack([from_x, from_y], -1)
    # All images share one grid: stack them as channels of one image, so that it is evaluated once.
    flat = images.reshape(1, batch * channels, height, width)
    turned = F.grid_sample(flat, grid.unsqueeze(0), "bilinear", padding, align_corners=True)
    return turned.view(batch, channels, height + 2 * margin, width + 2 * margin)


def _blur(images: Tensor, sigma: float) -> Tensor:
    """Blur with a separable 5×5 Gaussian; the result is two pixels smaller on each side."""
    weights = [math.exp(-0.5 * (distance / sigma) ** 2) for distance in range(3)]
    centre, inner, outer = (weight / (2 * sum(weights) - weights[0]) for weight in weights)
    for axis in (-1, -2):
        size = images.shape[axis] - 4
        first, second, third, fourth, fifth = (images.narrow(axis, start, size) for start in range(5))
        images = centre * third + inner * (second + fourth) + outer * (first + fifth)
    return images
