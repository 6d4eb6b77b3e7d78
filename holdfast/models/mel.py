"""Log-mel spectrograms inside the network, so that every method takes raw waveforms."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.records import InputSpec

RANGE_DB = 80.0  # dB below the loudest value of a clip
SMALLEST_POWER = 1e-10
# Slaney's scale: equal steps of 200/3 Hz up to 1000 Hz, then 27 steps per factor of 6.4.
HZ_PER_MEL, BREAK_HZ, LOG_STEP = 200 / 3, 1000.0, math.log(6.4) / 27
BREAK_MEL = BREAK_HZ / HZ_PER_MEL


class LogMel(nn.Module):
    """Turn waveforms (batch, samples) into mel bands in decibels divided by 40, (batch, mels, frames).

    Frames are Hann windows of `window` samples, `hop` apart and mirrored at both ends. The level is not normalised, so
    a quieter clip gives smaller values. `frames` beyond those of the clip are filled with 0. It has no parameters and
    no entry in the state dict.

    Args:
        sample_rate: of the clips, in Hz.
        samples: length of a clip.
        mels: number of bands.
        fft: samples of one transform.
        window: samples of one frame.
        hop: samples between frames.
        frames: of the result; None: as many as the clip has.

    >>> LogMel(sample_rate=16_000, samples=16_000, mels=80, fft=1024, window=400, hop=155)(torch.zeros(2, 16_000)).shape
    torch.Size([2, 80, 104])
    """

    hann: Tensor
    filters: Tensor

    def __init__(
        self, *, sample_rate: int, samples: int, mels: int, fft: int, window: int, hop: int, frames: int | None = None
    ) -> None:
        super().__init__()
        self.input_spec = InputSpec("audio", (samples,), sample_rate)
        self.mels, self.fft, self.window, self.hop = mels, fft, window, hop
        self.frames = frames or 1 + samples // hop
        self.register_buffer("hann", torch.hann_window(window), persistent=False)
        self.register_buffer("filters", mel_filters(mels, fft, sample_rate), persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return spectrograms, (batch, mels, frames)."""
        check_clips(inputs, self.input_spec)
        scaled = mel_decibels(inputs, self.hann, self.filters, self.fft, self.hop) / (RANGE_DB / 2)
        return F.pad(scaled, (0, self.frames - scaled.shape[-1]))


def check_clips(inputs: Tensor, spec: InputSpec) -> None:
    """Raise a ValueError unless inputs are mono clips of the length that a network takes, (batch, samples)."""
    if inputs.dim() != 2 or inputs.shape[1:] != spec.shape:
        raise ValueError(
            f"the inputs have shape {tuple(inputs.shape)}, but this network takes mono clips (batch, {spec.shape[0]}) "
            f"at {spec.sample_rate} Hz; resample them and bring them to that length"
        )


def mel_decibels(inputs: Tensor, window: Tensor, filters: Tensor, fft: int, hop: int) -> Tensor:
    """Return the power in mel bands in dB, at most 80 dB below the loudest value of a clip, (batch, mels, frames)."""
    spectrum = torch.stft(inputs, fft, hop, len(window), window, center=True, return_complex=True)
    power = spectrum.real.square() + spectrum.imag.square()  # (batch, frequencies, frames)
    decibels = 10 * (filters @ power).clamp_min(SMALLEST_POWER).log10()
    return torch.maximum(decibels, decibels.amax((1, 2), keepdim=True) - RANGE_DB)


def mel_filters(mels: int, fft: int, sample_rate: int, *, scale: Literal["slaney", "htk"] = "slaney") -> Tensor:
    """Return triangles on Slaney's mel scale, or on that of HTK, each with the height 1, (mels, frequencies).

    >>> mel_filters(4, 16, 16_000).shape
    torch.Size([4, 9])
    """
    highest_hz = sample_rate / 2
    if scale == "htk":
        points = torch.linspace(0, math.log10(1 + highest_hz / 700), mels + 2, dtype=torch.float64)
        corners = 700 * (10**points - 1)
    else:
        highest = (
            BREAK_MEL + math.log(highest_hz / BREAK_HZ) / LOG_STEP if highest_hz > BREAK_HZ else highest_hz / HZ_PER_MEL
        )
        points = torch.linspace(0, highest, mels + 2, dtype=torch.float64)
        above = BREAK_HZ * ((points - BREAK_MEL) * LOG_STEP).exp()
        corners = torch.where(points < BREAK_MEL, points * HZ_PER_MEL, above)
    frequencies = torch.linspace(0, highest_hz, fft // 2 + 1, dtype=torch.float64)
    left, middle, right = (part.unsqueeze(1) for part in (corners[:-2], corners[1:-1], corners[2:]))
    rising, falling = (frequencies - left) / (middle - left), (right - frequencies) / (right - middle)
    return torch.minimum(rising, falling).clamp_min(0).float()
