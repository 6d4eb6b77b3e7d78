"""From picks to pixels and waveforms: the corruptions of each sample's domain, one after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from holdfast.corruptions import CORRUPTIONS, Corruption, store_as_jpeg
from holdfast.corruptions.audio.criteria import BOTH_WAYS
from holdfast.corruptions.audio.dhauds import criteria
from holdfast.corruptions.base import ORDER
from holdfast.data import Crop, Dataset
from holdfast.options.problems import check
from holdfast.randomness import seed_for, seeded_rng
from holdfast.records import Domain, InputSpec, Picks

Draws = Literal["sample", "position"]
Renderer = Literal["numpy", "torch"]
BUILT_IN = frozenset((*ORDER, *criteria(BOTH_WAYS)))  # whose sources CORRUPTION_VERSION covers


@dataclass(frozen=True)
class Rendering:
    """How picks become inputs: everything besides the plan and the data that determines them.

    `draws="sample"` keys the random draws of a corruption by the sample, which then looks the same at every visit, as
    in published corrupted data sets; `draws="position"` draws anew at every visit.

    `renderer="torch"` computes noises, blurs, brightness, contrast, fog, pixelate and saturate as batches, on `device`,
    from the same draws; other corruptions stay with numpy.

    >>> Rendering(seed=3) == Rendering(seed=3), Rendering(seed=3).redrawn() == Rendering(seed=3)
    (True, False)
    """

    seed: int = 0  # of all draws
    draws: Draws = "sample"  # "sample" or "position": what the random draws are keyed by
    family: str | None = None  # of the severity tables; None: the one that fits the size of the images
    storage_jpeg_quality: int | None = None  # images are stored as JPEG after their corruptions; None: they are not
    crop: Crop | None = None  # of every image before its corruptions
    renderer: Renderer = "numpy"  # torch: batched formulas for the corruptions that have one
    device: str = "cpu"  # of the torch renderer
    own: Mapping[str, Corruption] = field(default_factory=dict)  # corruptions by name, besides the catalogue's

    def __post_init__(self) -> None:
        check(type(self), vars(self), owner="a rendering")
        if self.device != "cpu" and self.renderer == "numpy":
            raise ValueError(f"the numpy renderer has no device, got {self.device!r}; choose renderer='torch'")

    def redrawn(self, seed: int | None = None) -> Rendering:
        """Return the same rendering with other draws: those of `seed`, by default of one derived from its own."""
        return replace(self, seed=seed_for(self.seed, "draws of the twin") if seed is None else seed)

    def spec(self, names: Iterable[str] = ()) -> dict[str, Any]:
        """Return everything but the seed, as plain JSON, for corruptions of these names.

        Corruptions of `own`, and registered ones that are not built in, appear with their sources.
        """
        sources = {name: corruption.source for name, corruption in self.own.items()}
        for name in names:
            if name not in sources and name not in BUILT_IN and self.corruption(name).source:
                sources[name] = self.corruption(name).source
        return {
            "family": self.family,
            "storage_jpeg_quality": self.storage_jpeg_quality,
            "draws": self.draws,
            **({"crop": self.crop.spec()} if self.crop else {}),
            **({"renderer": self._named_renderer} if self.renderer != "numpy" else {}),
            **({"own": sources} if sources else {}),
        }

    @property
    def _named_renderer(self) -> str:
        """The renderer with the kind of its device, which rounds differently."""
        kind = self.device.partition(":")[0]
        return self.renderer if kind == "cpu" else f"{self.renderer} on {kind}"

    def corruption(self, name: str) -> Corruption:
        """Return the corruption of this name, its own or the catalogue's."""
        return self.own.get(name) or CORRUPTIONS[name]

    def load(self, data: Dataset, picks: Picks, start: int) -> NDArray[Any]:
        """Return the samples before their corruptions, cropped if the rendering has a crop."""
        if self.crop is None:
            return data.inputs(picks.samples)
        rngs = [seeded_rng(self.seed, "crop", int(key)) for key in self._keys(picks, start)]
        return self.crop.views(data, picks.samples, rngs)

    def render(
        self, samples: NDArray[Any], picks: Picks, domains: Sequence[Domain], start: int, input_spec: InputSpec
    ) -> NDArray[Any]:
        """Return the samples after the corruptions of their domains; the first of them is at position `start`."""
        samples = np.array(samples)  # the data's own arrays stay unchanged
        keys = self._keys(picks, start)
        rate = input_spec.sample_rate
        known: dict[str, Any] = {"family": self.family} if rate is None else {"sample_rate": rate}
        for stage in range(picks.severities.shape[1]):
            for (name, earlier, severity), rows in _groups(picks, domains, stage).items():
                # A corruption that comes twice in one domain gets different draws each time.
                purpose = name if not earlier else f"{name} again {earlier}"
                rngs = [seeded_rng(self.seed, purpose, int(keys[row])) for row in rows]
                samples[rows] = self._corrupted(name, samples[rows], severity, rngs, known)
        return samples if self.storage_jpeg_quality is None else store_as_jpeg(samples, self.storage_jpeg_quality)

    def _corrupted(
        self, name: str, samples: NDArray[Any], severity: float, rngs: list[Any], known: Mapping[str, Any]
    ) -> NDArray[Any]:
        corruption = self.corruption(name)
        if self.renderer == "torch":
            from holdfast.corruptions.torch_formulas import FORMULAS, corrupt

            if corruption.name in FORMULAS and name not in self.own:
                return corrupt(corruption, samples, severity, rngs, device=self.device, **known)
        return corruption.batch(samples, severity, rngs, **known)

    def _keys(self, picks: Picks, start: int) -> NDArray[np.int64]:
        """Return what the random draws of each sample are keyed by: its index, or its position."""
        return picks.samples if self.draws == "sample" else np.arange(start, start + len(picks))


def _groups(picks: Picks, domains: Sequence[Domain], stage: int) -> dict[tuple[str, int, float], list[int]]:
    """Return the rows by corruption, its earlier uses in the same domain, and severity at this stage."""
    groups: dict[tuple[str, int, float], list[int]] = defaultdict(list)
    for row, (domain, severity) in enumerate(zip(picks.domains, picks.severities[:, stage], strict=True)):
        if severity > 0:
            corruptions = domains[domain].corruptions
            name = corruptions[stage]
            groups[name, corruptions[:stage].count(name), float(severity)].append(row)
    return groups
