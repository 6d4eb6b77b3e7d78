"""Detect the domains of a stream and keep their number bounded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn

from holdfast.blocks.balanced_norm import Groups
from holdfast.blocks.domain_norm import DomainOfSamples, DomainStatistics, Regrouping, Strata
from holdfast.registry import nearest
from holdfast.state import Stateful

Distance = Literal["w2", "kl"]
Overflow = Literal["merge", "prune"]


class Domains(Stateful):
    """Assign each sample to a domain at one layer of a network, and normalise each domain separately in all layers.

    There is one more slot than domains: the reserve, whose statistics are the source's. Samples closer to it than to
    every domain open a new domain, one per batch (Du et al., 2024). At `max_domains` slots, including the reserve, the
    closest two domains are merged before the next batch (ours); the official code instead prunes, among the older half,
    the domains with the fewest samples. A stratum is a pair of domain and class.
    """

    counts: list[int]  # samples by slot; the last is the reserve
    strata: dict[int, int]  # domain · classes + label -> row in which the layers keep its statistics
    stratum_counts: list[int]  # samples by row

    def __init__(
        self,
        network: nn.Module,
        layer: str,
        *,
        num_classes: int,
        distance: Distance = "w2",
        max_domains: int = 32,
        overflow: Overflow = "merge",
    ) -> None:
        super().__init__()
        self.num_classes, self.distance, self.max_domains, self.overflow = num_classes, distance, max_domains, overflow
        # Layers of the network: in a tuple, torch does not register them here a second time.
        self._layers = tuple(part for part in network.modules() if isinstance(part, DomainStatistics))
        chosen = network.get_submodule(layer).modules()
        next(part for part in chosen if isinstance(part, DomainStatistics)).assign_domains()
        self.assigned: Tensor | None = None  # the domain of each sample of the last batch
        self.add_state("counts", [0, 0])
        self.add_state("strata", {})
        self.add_state("stratum_counts", [])

    @contextmanager
    def apart(self, labels: Tensor | None) -> Iterator[None]:
        """Normalise by domain in the pass inside, after a pass of the same samples; with labels, update the strata."""
        assert self._watched.seen is not None, "call the network on the same samples first"
        assigned = distances(*self._watched.seen, *self.moments(), self.distance).argmin(1)  # the first of equals
        slots = len(self.counts)
        # Samples are counted on the host, which waits for them once.
        domains, classes = torch.stack([assigned, assigned if labels is None else labels]).cpu()
        strata = None if labels is None else self._admit(domains, classes)
        present, inverse = domains.unique(return_inverse=True)
        only = int(present) if len(present) == 1 else present.to(assigned.device)
        placed = DomainOfSamples(only, inverse.to(assigned.device), strata)
        try:
            for layer in self._layers:
                layer.divide(placed)
            yield
        finally:
            for layer in self._layers:
                layer.divide(None)
        self.assigned = assigned
        if len(self.counts) > slots >= self.max_domains:
            self.regroup(self._merged() if self.overflow == "merge" else self._pruned(slots))

    @property
    def _watched(self) -> DomainStatistics:
        return next(layer for layer in self._layers if layer.watched)

    def check_state(self) -> None:
        """Raise an error if rows are not counted, or if layers lack the statistics of a domain or stratum."""
        numbers = [*self.counts, *self.strata, *self.strata.values(), *self.stratum_counts]
        whole = all(type(number) is int and number >= 0 for number in numbers)
        rows = sorted(self.strata.values()) == list(range(len(self.stratum_counts)))
        inside = all(key // self.num_classes < len(self.counts) - 1 for key in self.strata) if whole else False
        room = all(
            layer.domains.strata.shape[1:] == (2, len(layer.source_mean))
            and layer.domains.sums.shape[1:] == (3, len(layer.source_mean))
            for layer in self._layers
        )
        watched = self._watched.domains
        if not (whole and rows and inside and room and len(self.counts) >= 2) or (
            len(watched.sums) < len(self.counts) or len(watched.strata) < len(self.stratum_counts)
        ):
            raise ValueError("the saved domains do not match the statistics in the layers; save the state again")

    def moments(self) -> tuple[Tensor, Tensor]:
        """Return mean and variance of every slot in the layer that detects domains, (slots, channels)."""
        slots = torch.arange(len(self.counts), device=self._watched.source_mean.device)
        return self._watched.domain_moments(slots)

    def _admit(self, domains: Tensor, labels: Tensor) -> Strata:
        """Count the samples, open a domain for those in the reserve, and assign a row to every new stratum."""
        if bool((domains == len(self.counts) - 1).any()):
            self.counts.append(0)
        for domain, samples in enumerate(domains.bincount().tolist()):
            self.counts[domain] += samples
        keys, inverse, counts = (domains * self.num_classes + labels).unique(return_inverse=True, return_counts=True)
        for key in keys.tolist():
            if key not in self.strata:
                self.strata[key] = len(self.strata)
                self.stratum_counts.append(0)
        rows = [self.strata[key] for key in keys.tolist()]
        for row, count in zip(rows, counts.tolist(), strict=True):
            self.stratum_counts[row] += count
        kept = keys // self.num_classes
        room, slots = max(rows) + 1, int(kept.max()) + 2
        watched = self._watched
        like, capped = watched.domains.strata, watched.capped
        groups = Groups.of(inverse.new_tensor(rows), inverse, counts, watched.class_momentum, like, capped=capped)
        kept = kept[inverse] if groups.inverse is None else kept
        return Strata(groups, kept.to(like.device), room, slots)

    def _merged(self) -> list[int | None]:
        """Return the new slot of each slot after merging the closest two domains into the first of them."""
        mean, var = (part[:-1] for part in self.moments())
        apart = distances(mean, var, mean, var, self.distance).fill_diagonal_(torch.inf)
        first, second = sorted(divmod(int(apart.argmin()), len(apart)))
        return [first if slot == second else slot - (slot > second) for slot in range(len(self.counts))]

    def _pruned(self, slots: int) -> list[int | None]:
        """Return the new slot of each slot after pruning the smallest of the older half; None for pruned ones."""
        older = self.counts[: slots // 2]
        kept = [slot for slot in range(len(self.counts)) if slot >= len(older) or older[slot] > min(older)]
        return [kept.index(slot) if slot in kept else None for slot in range(len(self.counts))]

    def regroup(self, targets: Sequence[int | None]) -> None:
        """Move every slot to its new target, in the counts and in the layers."""
        first_of = {target: slot for slot, target in reversed(list(enumerate(targets))) if target is not None}
        plan = Regrouping([first_of[target] for target in sorted(first_of)], [], [], [], [], [])
        counts, strata, stratum_counts = [0] * len(first_of), dict[int, int](), list[int]()
        for slot, target in enumerate(targets):
            if target is not None:
                counts[target] += self.counts[slot]
        for key, row in self.strata.items():
            target = targets[key // self.num_classes]
            if target is None:
                continue
            key = target * self.num_classes + key % self.num_classes
            if key not in strata:
                strata[key] = len(strata)
                stratum_counts.append(self.stratum_counts[row])
                plan.rows.append(row)
                plan.row_domains.append(target)
            else:
                joined = strata[key]
                stratum_counts[joined] += self.stratum_counts[row]
                plan.joined.append(joined)
                plan.joining.append(row)
                plan.shares.append(self.stratum_counts[row] / stratum_counts[joined])
        self.counts, self.strata, self.stratum_counts = counts, strata, stratum_counts
        for layer in self._layers:
            layer.domains.regroup(plan)


def distances(mean: Tensor, var: Tensor, domain_mean: Tensor, domain_var: Tensor, distance: Distance) -> Tensor:
    """Return the distance of each sample from each domain as normal distributions per channel, (samples, domains).

    `w2` is the squared Wasserstein distance of the official code, `kl` the symmetric divergence of the paper.

    >>> mean, var = torch.tensor([[0.0], [2.0]]), torch.ones(2, 1)
    >>> distances(mean, var, torch.tensor([[0.0], [1.0]]), torch.tensor([[1.0], [4.0]]), "w2").tolist()
    [[0.0, 2.0], [4.0, 2.0]]
    """
    mean, var, domain_mean, domain_var = (part.double() for part in (mean, var, domain_mean, domain_var))
    shift = (mean[:, None] - domain_mean).square()  # Δ², (samples, domains, channels)
    if distance == "w2":
        return (shift + (var.sqrt()[:, None] - domain_var.sqrt()).square()).sum(2)
    smallest = torch.finfo(torch.float32).eps  # a constant channel has no variance; avoid dividing by 0
    var, domain_var = var.clamp_min(smallest)[:, None], domain_var.clamp_min(smallest)
    return ((var + shift) / domain_var + (domain_var + shift) / var - 2).sum(2) / 2


def prediction_layer(layers: Sequence[str], stages: Sequence[str], name: str | None = None) -> str:
    """Return the name of the layer that detects domains: the first of the middle stage, or the one requested.

    The official code names such a layer for each network; choosing it automatically is ours. Without stages it is the
    middle one of all layers.

    >>> prediction_layer(["bn", "a.bn", "b.0.bn1", "b.0.bn2", "c.bn"], ["a", "b", "c"])
    'b.0.bn1'
    """
    if name is not None:
        if name not in layers:
            raise ValueError(f"{name!r} is not a normalisation layer of this model; {nearest(name, layers)}")
        return name
    middle = stages[len(stages) // 2 :]
    inside = (layer for stage in middle for layer in layers if layer.startswith(f"{stage}."))
    return next(inside, layers[len(layers) // 2])
