"""Cross streams: corruptions follow a calibrated walk while classes follow a Markov chain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.data import Dataset
from holdfast.randomness import seeded_rng
from holdfast.records import Picks
from holdfast.streams.builder import STREAMS
from holdfast.streams.catalogue.ccc import ccc
from holdfast.streams.chains.chain import Chain, chain_of
from holdfast.streams.chains.chain_report import StreamReport, report_on
from holdfast.streams.chains.strata import deal, turns
from holdfast.streams.plans.pieces import Pieces
from holdfast.streams.plans.plan import Plan
from holdfast.streams.stream import Stream
from holdfast.streams.walks.walk import Walk

PIECE = 2**18  # samples; the first of each piece is drawn independently of its predecessor


class CrossPlan(Plan):
    """The steps of a walk, with classes from a chain; optionally a second chain chooses the transitions.

    This combination of Press et al. (NeurIPS 2023) and Du et al. (arXiv 2407.20080) is ours. The position decides the
    step on the path of the chosen transition, so that every sample is as hard as calibrated. Chains are drawn in pieces
    of 262 144 samples, each started at a draw from the shares and keyed by its index: any position of an endless stream
    costs one piece, and two are kept. The samples of a class come in turn, in a new order for each piece.

    Args:
        walk: transitions and their steps.
        labels: index of the class of each sample of the data.
        class_chain: from which classes are drawn.
        transition_chain: from which transitions are drawn; None: in the order of the walk.

    >>> from holdfast.streams.walks.transitions import Calibration, Transition
    >>> path = Transition("contrast", "brightness", ((2, 0), (1, 0), (1, 1), (0, 1)), (30.0, 50.0, 40.0, 60.0))
    >>> labels = np.arange(100) % 10
    >>> walk = Walk(Calibration((path,), 40.0), 100, images_per_step=10)
    >>> plan = CrossPlan(walk, labels, Chain(size=10, stay=0.95))
    >>> plan.picks(10**9, 10**9 + 5).severities.tolist() == walk.picks(10**9, 10**9 + 5).severities.tolist()
    True
    >>> round(plan.report(10**9, 10**9 + 10**5).classes.realised_stay, 2)
    0.95
    """

    def __init__(
        self,
        walk: Walk,
        labels: NDArray[np.int64],
        class_chain: Chain,
        transition_chain: Chain | None = None,
    ) -> None:
        self.walk = walk
        self.labels = labels
        self.class_chain, self.transition_chain = class_chain, transition_chain
        self.domains, self.length, self.seed = walk.domains, walk.length, walk.seed
        self.classes, self._codes = np.unique(labels, return_inverse=True)
        for chain, size in ((class_chain, len(self.classes)), (transition_chain, len(walk.calibration.transitions))):
            if chain is not None:
                chain.check()
                if chain.size != size:
                    raise ValueError(f"the chain must have size={size}, got {chain.size}")
        self._pieces = Pieces(self._draw, PIECE)

    def picks(self, start: int, stop: int) -> Picks:
        """Return the picks at positions `start` to `stop`."""
        self.check_span(start, stop)
        positions = np.arange(start, stop)
        samples = self._pieces.at(positions)[0]
        rows = self._rows(positions)
        return Picks(samples, self.walk.row_domains[rows], self.walk.row_severities[rows])

    def expected(self, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the expected accuracy, between 0 and 1, of the calibrated model at each position."""
        return self.walk.row_expected[self._rows(positions)]

    def report(self, start: int, stop: int) -> StreamReport:
        """Compare these positions with what the chains ask for."""
        picks = self.picks(start, stop)
        sizes = len(self.domains), len(self.classes)
        # A pair may have several paths, so the chain of paths does not give the shares of the domains.
        return report_on(picks, self._codes[picks.samples], None, self.class_chain, sizes)

    def spec(self) -> dict[str, Any]:
        """Return the walk and the chains as plain JSON."""
        return {
            "kind": "cross",
            "version": 1,
            "walk": self.walk.spec(),
            "class_chain": self.class_chain.spec(),
            "transition_chain": None if self.transition_chain is None else self.transition_chain.spec(),
        }

    def protocol(self) -> dict[str, Any]:
        """Return the spec without what a seed has drawn."""
        return {**self.spec(), "walk": self.walk.protocol()}

    def __reduce__(self) -> tuple[Callable[..., CrossPlan], tuple[Any, ...]]:
        # Only the arguments are pickled, not the pieces drawn so far.
        return CrossPlan, (self.walk, self.labels, self.class_chain, self.transition_chain)

    def _rows(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.walk.rows(positions, None if self.transition_chain is None else self._pieces.at(positions)[1])

    def _draw(self, index: int) -> NDArray[np.int32]:
        """Draw a piece: the samples and, if a chain chooses them, the transitions."""
        classes = self.class_chain.states(PIECE, seeded_rng(self.seed, "class states", index))
        rng = seeded_rng(self.seed, "class samples", index)
        samples = deal(np.zeros_like(classes), classes, turns(classes), self._codes, rng)
        if self.transition_chain is None:
            return samples[None]
        return np.stack(
            [samples, self.transition_chain.states(PIECE, seeded_rng(self.seed, "transition states", index))]
        )


@STREAMS.register(
    "cross",
    citation="Press et al., NeurIPS 2023; Du et al., arXiv 2407.20080; the combination is ours",
    needs_model=True,
    extends=STREAMS["ccc"],
)
def cross(
    data: Dataset,
    *,
    classes: Chain | Mapping[str, Any] | None = None,
    transitions: Chain | Mapping[str, Any] | None = None,
    **options: Any,
) -> Stream:
    """A CCC walk with classes from a Markov chain, independent of the corruption.

    Args:
        data: labelled samples, such as `Digits()`.
        classes: options of the `Chain` of the classes, such as `{"stay": 0.95}`.
        transitions: options of the `Chain` of the pairs of corruptions; None: in the order of the walk.
        **options: those of `ccc`.
    """
    stream = ccc(data, **options)
    walk = stream.plan
    assert isinstance(walk, Walk)
    plan = CrossPlan(
        walk,
        data.labels,
        chain_of("classes", len(np.unique(data.labels)), classes or {}),
        None if transitions is None else chain_of("transitions", len(walk.calibration.transitions), transitions),
    )
    return Stream(plan, data, stream.rendering)
