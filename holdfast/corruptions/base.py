"""What a corruption is: a formula in physical quantities, and tables that say what each severity means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from holdfast.corruptions.samples import as_image
from holdfast.registry import Registry

__all__ = [
    "CORRUPTIONS",
    "CORRUPTION_VERSION",
    "FAMILIES",
    "Corruption",
    "Images",
    "Kind",
    "Rng",
    "Rows",
    "corruption",
    "family_of",
    "images_of",
    "planes_of",
    "quantise",
]

# One more whenever any corruption gives other pixels than before for the same picture, severity and generator, if only
# by a level: the fingerprints of streams hold this number, and equal fingerprints promise equal pixels. A corruption
# that is new, or faster with the same pixels, is no reason.
CORRUPTION_VERSION = 2

Images: TypeAlias = NDArray[np.uint8]  # (n, height, width, 3)
Rng: TypeAlias = np.random.Generator | np.random.RandomState
Rows: TypeAlias = Sequence[float] | Sequence[tuple[float, ...]]  # six: severities 0 to 5
Draw: TypeAlias = Callable[..., tuple[Any, ...]]
Kind: TypeAlias = Literal["image", "audio"]
Sample = TypeVar("Sample")

FAMILIES = {"32": 48, "64": 96, "224": None}  # the largest shorter side, in pixels, that each table is meant for
HENDRYCKS = "Hendrycks & Dietterich, ICLR 2019"
ORDER = (
    *("gaussian_noise", "shot_noise", "impulse_noise"),
    *("defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
    *("snow", "frost", "fog", "brightness"),
    *("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
    *("speckle_noise", "gaussian_blur", "spatter", "saturate"),  # held out
    *("white_noise", "enq", "end1", "end2", "ensc", "time_stretch", "pitch_shift"),  # of sounds
    *("white_noise_compat", "time_stretch_compat"),
)
CHUNK_VALUES = 1 << 15  # float64 intermediates of this many values stay in the cache and below the page-fault cliff


def family_of(height: int, width: int) -> str:
    """Return the family of severity tables that fits a picture: "32" (CIFAR), "64" (Tiny ImageNet) or "224".

    >>> family_of(32, 32), family_of(64, 300), family_of(480, 640)
    ('32', '64', '224')
    """
    return next(family for family, side in FAMILIES.items() if side is None or min(height, width) <= side)


def quantise(values: NDArray[np.floating[Any]]) -> Images:
    """Return values in [0, 1] as 8-bit levels, truncated as in the published data; `values` is used up.

    >>> quantise(np.array([-0.1, 0.5, 1.2])).tolist()
    [0, 127, 255]
    """
    np.clip(values, 0, 1, out=values)
    np.multiply(values, 255, out=values)
    return values.astype(np.uint8)


def planes_of(images: Images, dtype: DTypeLike = np.float32) -> NDArray[Any]:
    """Return the channels of images (n, height, width, 3) as planes (3, n, height, width) of values in [0, 1].

    NumPy is slow on axes as short as a pixel, so formulas that mix pixels with a layer of their own use planes.
    """
    return np.divide(np.moveaxis(images, -1, 0), 255, dtype=dtype, order="C")


def images_of(planes: NDArray[Any]) -> Images:
    """Return planes (3, n, height, width) of values in [0, 1] as images; the planes are used up.

    >>> images = np.arange(48, dtype=np.uint8).reshape(1, 4, 4, 3)
    >>> np.array_equal(images_of(planes_of(images)), images)
    True
    """
    return np.stack(list(quantise(planes)), axis=-1)


@dataclass(frozen=True, eq=False)
class Corruption:
    """A pure function of a sample, a severity from 0 to 5 and a generator.

    Sampling is apart from applying: `draw(rng, image, *quantities)` returns the random fields of one image, and
    `apply(images, *fields, *quantities)` is a formula in them, stacked over the images. Those of sounds are
    `AudioCorruption`s (holdfast.corruptions.audio).

    >>> from holdfast.corruptions import CORRUPTIONS
    >>> dark = np.zeros((32, 32, 3), np.uint8)
    >>> int(CORRUPTIONS["brightness"](dark, 5, np.random.default_rng(0)).max())
    76
    """

    kind: ClassVar[Kind] = "image"
    families: ClassVar[Iterable[str]] = FAMILIES

    name: str
    tables: Mapping[str, Rows]  # one for each family
    apply: Callable[..., NDArray[Any]]
    draw: Draw | None = None
    whole_severities: bool = False  # the published steps are not on one line, so nothing lies between them
    citation: str = HENDRYCKS
    source: str = ""  # of textures that the pixels depend on, for the record

    def __post_init__(self) -> None:
        if set(self.tables) != set(self.families) or any(len(rows) != 6 for rows in self.tables.values()):
            families = ", ".join(self.families)
            raise ValueError(f"{self.name} needs six rows, severities 0 to 5, for each family {families}")

    @property
    def summary(self) -> str:
        """What it does, in one line, and what with."""
        line = (self.apply.__doc__ or "").strip().split("\n")[0]
        return f"{line} With {self.source}." if self.source else line

    def quantities(self, severity: float, family: str) -> list[float]:
        """Return the physical quantities at a severity, on the line between the two nearest rows of the table.

        >>> from holdfast.corruptions import CORRUPTIONS
        >>> CORRUPTIONS["contrast"].quantities(2.5, "224")
        [0.25]
        """
        if not 0 <= severity <= 5:
            raise ValueError(
                f"severity {severity} is not between 0 and 5; 0 leaves a sample as it is, 5 is the strongest"
            )
        if self.whole_severities and severity != int(severity):
            raise ValueError(f"{self.name} has no severity {severity}; choose one of 0, 1, 2, 3, 4, 5")
        if family not in self.tables:
            raise ValueError(f"no family {family!r} of severities; choose one of {', '.join(self.tables)}")
        rows = np.array(self.tables[family], np.float64).reshape(6, -1)
        below, above = rows[int(severity)], rows[min(int(severity) + 1, 5)]
        between: list[float] = (below + (severity - int(severity)) * (above - below)).tolist()
        return between

    def __call__(self, sample: Sample, severity: float, rng: Rng, *, family: str | None = None) -> Sample:
        """Return a corrupted copy: a uint8 array (height, width[, 3]), a Pillow image or a tensor (3, height, width).

        Grey becomes RGB; a float tensor holds values in [0, 1]; severity 0 returns the sample itself.
        """
        if severity == 0:
            return sample
        image, back = as_image(sample)
        return back(self.batch(image[None], severity, [rng], family=family)[0])

    def batch(self, samples: Images, severity: float, rngs: Iterable[Rng], *, family: str | None = None) -> Images:
        """Return corrupted copies of images (n, height, width, 3), each from its own generator.

        The generators are not touched by a corruption that draws nothing.
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
        """Draw with what is `known` of the samples besides their values, and apply, as many at once as are quick."""
        if severity == 0:
            return np.array(samples)
        rngs = list(rngs) if self.draw else []
        if self.draw and len(rngs) != len(samples):
            raise ValueError(
                f"{len(samples)} samples but {len(rngs)} generators; pass one generator for each {self.kind}"
            )
        corrupted = np.empty(samples.shape, samples.dtype)
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
        if len(drawn) == 1:  # of one large image, say: not worth a copy
            return [np.asarray(field)[None] for field in drawn[0]]
        return [np.stack(field) for field in zip(*drawn, strict=True)]

    def __reduce__(self) -> tuple[Callable[[str], Corruption], tuple[str]]:
        # The decorated functions hide behind their corruptions, so the name is what travels to another process.
        return _named, (self.name,)


class Corruptions(Registry[Corruption]):
    """The registry of corruptions, which lists them by kind of sample and in the order of published tables."""

    def __init__(self) -> None:
        super().__init__("corruption", "corruptions")

    def names(self, kind: Kind | None = None) -> list[str]:
        """Return the names of the corruptions of one kind of sample, or of all: images first, then audio.

        Published corruptions come first, in the order in which tables print them.
        """
        known = [name for name in super().names() if kind in (None, self[name].kind)]
        return sorted(known, key=lambda name: (self[name].kind != "image", _place(name)))


def _place(name: str) -> int:
    return ORDER.index(name) if name in ORDER else len(ORDER)


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
    """Register a formula `apply(images, *fields, *quantities)` with its severity tables, as a decorator."""

    def register(apply: Callable[..., Images]) -> Corruption:
        entry = Corruption(name, tables, apply, draw, whole_severities, citation)
        return CORRUPTIONS.register(name, alias=alias)(entry)

    return register
