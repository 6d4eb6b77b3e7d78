"""What a corruption is: a formula in physical quantities, and a table of these quantities by severity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from holdfast.corruptions import fast
from holdfast.corruptions.samples import as_image
from holdfast.registry import Registry

# Increase it whenever a corruption changes its output for the same image, severity and generator, even by one level:
# stream fingerprints contain this number, and equal fingerprints guarantee equal pixels. A new corruption, or a faster
# one with the same pixels, needs no increase.
CORRUPTION_VERSION = 2

Images: TypeAlias = NDArray[np.uint8]  # (n, height, width, 3)
Rng: TypeAlias = np.random.Generator | np.random.RandomState
Rows: TypeAlias = Sequence[float] | Sequence[tuple[float, ...]]  # six rows: severities 0 to 5
Draw: TypeAlias = Callable[..., tuple[Any, ...]]
Kind: TypeAlias = Literal["image", "audio"]
Sample = TypeVar("Sample")

FAMILIES = {"32": 48, "64": 96, "224": None}  # the largest shorter side in pixels for each table
HENDRYCKS = "Hendrycks & Dietterich, ICLR 2019"
ORDER = (
    *("gaussian_noise", "shot_noise", "impulse_noise"),
    *("defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
    *("snow", "frost", "fog", "brightness"),
    *("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
    *("speckle_noise", "gaussian_blur", "spatter", "saturate"),  # held out
    *("white_noise", "enq", "end1", "end2", "ensc", "time_stretch", "pitch_shift"),  # audio
    *("white_noise_compat", "time_stretch_compat"),
)
CHUNK_VALUES = 1 << 15  # so many float64 values fit in the cache
KEPT_MEMORY = 1 << 24  # bytes


def family_of(height: int, width: int) -> str:
    """Return the family of severity tables for an image size: "32" (CIFAR), "64" (Tiny ImageNet) or "224".

    >>> family_of(32, 32), family_of(64, 300), family_of(480, 640)
    ('32', '64', '224')
    """
    return next(family for family, side in FAMILIES.items() if side is None or min(height, width) <= side)


def quantise(values: NDArray[np.floating[Any]]) -> Images:
    """Return values in [0, 1] as 8-bit levels, truncated as in the published data; `values` is overwritten.

    >>> quantise(np.array([-0.1, 0.5, 1.2])).tolist()
    [0, 127, 255]
    """
    np.clip(values, 0, 1, out=values)
    np.multiply(values, 255, out=values)
    return values.astype(np.uint8)


def planes_of(images: Images, dtype: DTypeLike = np.float32) -> NDArray[Any]:
    """Return the channels of images (n, height, width, 3) as planes (3, n, height, width) of values in [0, 1].

    NumPy is slow on axes of length 3, so formulas that blend images with a generated layer use planes.
    """
    if loops := fast.loops():
        shares = np.divide(np.arange(256), 255, dtype=dtype)
        return loops.planes(images.reshape(-1, 3), shares).reshape(3, *images.shape[:3])  # type: ignore[no-any-return]
    return np.divide(np.moveaxis(images, -1, 0), 255, dtype=dtype, order="C")


def images_of(planes: NDArray[Any]) -> Images:
    """Return planes (3, n, height, width) of values in [0, 1] as images; the planes are overwritten.

    >>> images = np.arange(48, dtype=np.uint8).reshape(1, 4, 4, 3)
    >>> np.array_equal(images_of(planes_of(images)), images)
    True
    """
    if loops := fast.loops():
        pixels = loops.levels(planes.reshape(3, -1), planes.dtype.type(255))
        return pixels.reshape(*planes.shape[1:], 3)  # type: ignore[no-any-return]
    return np.stack(list(quantise(planes)), axis=-1)


@dataclass(frozen=True, eq=False)
class Corruption:
    """A pure function of a sample, a severity from 0 to 5 and a generator.

    Drawing and applying are separate: `draw(rng, image, *quantities)` returns the random fields of one image, and
    `apply(images, *fields, *quantities)` is a formula in these fields, stacked over the images. Corruptions of audio
    are `AudioCorruption`s (holdfast.corruptions.audio).

    >>> from holdfast.corruptions import CORRUPTIONS
    >>> dark = np.zeros((32, 32, 3), np.uint8)
    >>> int(CORRUPTIONS["brightness"](dark, 5, np.random.default_rng(0)).max())
    76
    """

    kind: ClassVar[Kind] = "image"
    families: ClassVar[Iterable[str]] = FAMILIES

    name: str  # under which streams and suites know it
    tables: Mapping[str, Rows]  # by family
    apply: Callable[..., NDArray[Any]]  # formula in images, random fields and quantities
    draw: Draw | None = None  # random fields of one image; None: there are none
    whole_severities: bool = False  # the published steps cannot be interpolated
    citation: str = HENDRYCKS  # author, venue and year
    source: str = ""  # textures or recordings that the output depends on, for the manifest

    def __post_init__(self) -> None:
        if set(self.tables) != set(self.families) or any(len(rows) != 6 for rows in self.tables.values()):
            families = ", ".join(self.families)
            raise ValueError(f"{self.name} needs six rows, severities 0 to 5, for each family {families}")

    @property
    def summary(self) -> str:
        """One line for the catalogue."""
        line = (self.apply.__doc__ or "").strip().split("\n")[0]
        return f"{line} With {self.source}." if self.source else line

    def quantities(self, severity: float, family: str) -> list[float]:
        """Return the physical quantities at a severity, interpolated between the two nearest rows of the table.

        >>> from holdfast.corruptions import CORRUPTIONS
        >>> CORRUPTIONS["contrast"].quantities(2.5, "224")
        [0.25]
        """
        if not 0 <= severity <= 5:
            raise ValueError(f"severity must be between 0 (unchanged) and 5 (strongest), got {severity}")
        if self.whole_severities and severity != int(severity):
            raise ValueError(f"{self.name} has no severity {severity}; choose one of 0, 1, 2, 3, 4, 5")
        if family not in self.tables:
            raise ValueError(f"unknown family {family!r} of severity tables; choose one of {', '.join(self.tables)}")
        rows = np.array(self.tables[family], np.float64).reshape(6, -1)
        below, above = rows[int(severity)], rows[min(int(severity) + 1, 5)]
        between: list[float] = (below + (severity - int(severity)) * (above - below)).tolist()
        return between

    def __call__(self, sample: Sample, severity: float, rng: Rng, *, family: str | None = None) -> Sample:
        """Return a corrupted copy: a uint8 array (height, width[, 3]), a Pillow image or a tensor (3, height, width).

        Grey images become RGB; float tensors have values in [0, 1]; severity 0 returns the sample itself.
        """
        if severity == 0:
            return sample
        image, back = as_image(sample)
        return back(self.batch(image[None], severity, [rng], family=family)[0])

    def batch(self, samples: Images, severity: float, rngs: Iterable[Rng], *, family: str | None = None) -> Images:
        """Return corrupted copies of images (n, height, width, 3), each from its own generator.

        A corruption that draws nothing does not advance the generators.
        """
        if samples.dtype != np.uint8 or samples.ndim != 4 or samples.shape[-1] != 3:
            raise ValueError(f"images are {samples.dtype} {samples.shape}; pass uint8 (n, height, width, 3)")
        quantities = self.quantities(severity, family or family_of(*samples.shape[1:3]))
        return self._corrupted(samples, severity, rngs, quantities)

    def _corrupted(
        self,
        samples: NDArray[Any],
        severity: float,
        rngs: Iterable[Rng],
        quantities: Sequence[float],
        **known: Any,
    ) -> NDArray[Any]:
        """Draw and apply, in chunks of efficient size; `known` are properties of the samples besides their values."""
        if severity == 0:
            return np.array(samples)
        rngs = list(rngs) if self.draw else []
        if self.draw and len(rngs) != len(samples):
            raise ValueError(f"{len(samples)} samples but {len(rngs)} generators; pass one generator per sample")
        corrupted = np.empty(samples.shape, samples.dtype)
        keep_memory()
        size = max(1, CHUNK_VALUES // max(1, samples[:1].size))
        for start in range(0, len(samples), size):
            chunk = slice(start, start + size)
            fields = self._fields(samples[chunk], rngs[chunk], quantities, known)
            corrupted[chunk] = self.apply(samples[chunk], *fields, *quantities)
        return corrupted

    def _fields(
        self, samples: NDArray[Any], rngs: Sequence[Rng], quantities: Sequence[float], known: Mapping[str, Any]
    ) -> list[NDArray[Any]]:
        if self.draw is None:
            return []
        drawn = [self.draw(rng, sample, *quantities, **known) for rng, sample in zip(rngs, samples, strict=True)]
        if len(drawn) == 1:  # stacking would only copy it
            return [np.asarray(field)[None] for field in drawn[0]]
        return [np.stack(field) for field in zip(*drawn, strict=True)]

    def __reduce__(self) -> tuple[Callable[[str], Corruption], tuple[str]]:
        # The decorator replaces the function, which therefore cannot be pickled; the name can.
        return _named, (self.name,)


@lru_cache(maxsize=1)
def keep_memory() -> None:
    """Make glibc keep freed memory for the next image instead of returning it to the system.

    It does so for blocks up to the size of the largest one freed so far. Page faults of fresh memory otherwise take
    half of the time of a corruption at 224 pixels.
    """
    np.empty(KEPT_MEMORY, np.uint8)  # never written, so it costs nothing


class Corruptions(Registry[Corruption]):
    """The registry of corruptions, which lists them by kind of sample and in the order of published tables."""

    def __init__(self) -> None:
        super().__init__("corruption", "corruptions")

    def names(self, kind: Kind | None = None) -> list[str]:
        """Return the names of the corruptions of one kind of sample, or of all: images first, then audio.

        Published corruptions come first, in the order in which tables print them.
        """
        known = [name for name in super().names() if kind in (None, self[name].kind)]
        rank = {name: index for index, name in enumerate(ORDER)}
        return sorted(known, key=lambda name: (self[name].kind != "image", rank.get(name, len(rank))))


CORRUPTIONS = Corruptions()


def _named(name: str) -> Corruption:
    return CORRUPTIONS[name]


def corruption(
    name: str,
    tables: Mapping[str, Rows],
    *,
    draw: Draw | None = None,
    alias: str | None = None,
    whole_severities: bool = False,
    citation: str = HENDRYCKS,
) -> Callable[[Callable[..., Images]], Corruption]:
    """Register a formula `apply(images, *fields, *quantities)` with its severity tables, as a decorator.

    Args:
        name: by which streams and commands know it.
        tables: for each family, the fields of the formula at severities 1 to 5.
        draw: a function that draws the random quantities of one sample.
        alias: a second name.
        whole_severities: whether severities between whole numbers are refused instead of interpolated.
        citation: of the paper.
    """

    def register(apply: Callable[..., Images]) -> Corruption:
        entry = Corruption(name, tables, apply, draw, whole_severities, citation)
        return CORRUPTIONS.register(name, alias=alias)(entry)

    return register
