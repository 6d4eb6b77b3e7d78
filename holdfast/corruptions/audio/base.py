"""What a corruption of audio is: like that of images, on waveforms with a sample rate."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from holdfast.audio import Waveform
from holdfast.corruptions.base import CORRUPTIONS, Corruption, Draw, Kind, Rng, Rows

Waveforms: TypeAlias = NDArray[np.float32]  # (n, samples)
Sample = TypeVar("Sample")

DHAUDS = "Shao et al., arXiv 2511.18421"


@dataclass(frozen=True, eq=False)
class AudioCorruption(Corruption):
    """A pure function of a mono waveform, a severity from 0 to 5 and a generator; it keeps the length.

    `draw(rng, waveform, *quantities, sample_rate)` returns the random fields of one clip. The published levels
    correspond to certain severities (`holdfast.corruptions.audio.dhauds`); the severity axis is ours.

    >>> from holdfast.corruptions import CORRUPTIONS
    >>> clip = np.sin(np.arange(16_000, dtype=np.float32) / 9)
    >>> noise = CORRUPTIONS["white_noise"](clip, 5, np.random.default_rng(0)) - clip
    >>> round(float(np.var(clip) / np.mean(noise**2)), 4)  # 0 dB
    1.0
    """

    kind: ClassVar[Kind] = "audio"
    families: ClassVar[Iterable[str]] = ("audio",)

    def __call__(
        self, sample: Sample, severity: float, rng: Rng, *, family: str | None = None, sample_rate: int = 16_000
    ) -> Sample:
        """Return a corrupted copy of a mono waveform, a float array or tensor (samples,), in its own type."""
        if severity == 0:
            return sample
        waveform, back = as_waveform(sample)
        return back(self.batch(waveform[None], severity, [rng], family=family, sample_rate=sample_rate)[0])

    def batch(
        self,
        samples: NDArray[Any],
        severity: float,
        rngs: Iterable[Rng],
        *,
        family: str | None = None,
        sample_rate: int = 16_000,
    ) -> NDArray[Any]:
        """Return corrupted copies of waveforms float32 (n, samples), each from its own generator."""
        if samples.dtype != np.float32 or samples.ndim != 2 or not samples.shape[1]:
            raise ValueError(f"waveforms are {samples.dtype} {samples.shape}; pass float32 (n, samples)")
        quantities = self.quantities(severity, family or "audio")
        return self._corrupted(samples, severity, rngs, quantities, sample_rate=sample_rate)


def audio_corruption(
    name: str, rows: Rows, *, draw: Draw | None = None, alias: str | None = None
) -> Callable[[Callable[..., Waveforms]], AudioCorruption]:
    """Register a formula `apply(waveforms, *fields, *quantities)` with its severities 0 to 5, as a decorator."""

    def register(apply: Callable[..., Waveforms]) -> AudioCorruption:
        entry = AudioCorruption(name, {"audio": rows}, apply, draw, citation=DHAUDS)
        CORRUPTIONS.register(name, alias=alias)(entry)
        return entry

    return register


def as_waveform(sample: Sample) -> tuple[Waveform, Callable[[Waveform], Sample]]:
    """Return a sample as float32 (samples,), and a function that converts such a waveform to the sample's type.

    >>> waveform, back = as_waveform(np.zeros(4))
    >>> waveform.dtype.name, back(waveform).dtype.name
    ('float32', 'float64')
    """
    values: Any = sample
    if hasattr(sample, "new_tensor"):  # a torch tensor, recognised without importing torch, which is slow
        values = values.detach().float().cpu().numpy() if values.is_floating_point() else values.cpu().numpy()
        back: Callable[[Waveform], Any] = cast("Any", sample).new_tensor
    elif isinstance(sample, np.ndarray):
        back = partial(np.asarray, dtype=sample.dtype)
    else:
        raise TypeError(f"cannot corrupt a {type(sample).__name__}; pass an array or a tensor")
    if values.dtype.kind != "f":
        raise ValueError(f"the waveform is {values.dtype}; pass floats in [-1, 1], e.g. 16-bit values divided by 32768")
    if values.ndim != 1 or not len(values):
        raise ValueError(f"the waveform has shape {values.shape}; pass one mono clip (samples,)")
    if not np.isfinite(values).all():
        raise ValueError("the waveform contains NaN or infinite values; remove this recording")
    return np.ascontiguousarray(values, np.float32), back
