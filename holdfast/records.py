"""The frozen records that travel between rooms; nothing here computes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

NOT_IN_TIME = "not in time: an earlier batch was still being adapted to"  # why an update of a timed run was left out


class SetupWarning(UserWarning):
    """Something in the set-up makes adaptation fail, though it runs; `holdfast doctor` says what to do."""


@dataclass(frozen=True)
class InputSpec:
    """What one input looks like to the network: `(3, 32, 32)` for an image, `(16000,)` for a second of audio."""

    kind: Literal["image", "audio", "other"]
    shape: tuple[int, ...]
    sample_rate: int | None = None


@dataclass(frozen=True)
class Domain:
    """Where samples come from and what happens to them: the named corruptions, one after the other.

    Without a part and corruptions it is the clean domain.
    """

    name: str
    corruptions: tuple[str, ...] = ()
    part: str | None = None  # the natural domain of the data that its samples come from; None: any

    def spec(self) -> dict[str, Any]:
        """Return the domain as plain JSON."""
        part = {} if self.part is None else {"part": self.part}
        return {"name": self.name, "corruptions": list(self.corruptions), **part}


@dataclass(frozen=True)
class Picks:
    """A stretch of a plan: which sample, in which domain, at which severity, in order of arrival."""

    samples: NDArray[np.int64]  # (n,) index into the data
    domains: NDArray[np.int64]  # (n,) index into the plan's domains
    severities: NDArray[np.float64]  # (n, depth) one for each corruption of the domain; 0 leaves it out

    def __len__(self) -> int:
        return len(self.samples)


@dataclass(frozen=True)
class Batch:
    """Samples that arrive together; labels and domains are for the recorder, never for the model."""

    inputs: Tensor
    labels: NDArray[np.int64]
    domains: tuple[str, ...]  # one name for each sample
    position: int  # of the first sample in the stream
    new_episode: bool = False  # the protocol starts over here: whoever adapts goes back to the source first
    expected: float | None = None  # accuracy that the plan was calibrated to, for the frozen model

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        shape = "×".join(map(str, self.inputs.shape[1:]))
        return f"Batch({len(self)} samples of {shape}, {', '.join(dict.fromkeys(self.domains))}, from {self.position})"


@dataclass(frozen=True)
class Event:
    """Something that a step did besides predicting and adapting: why, and the numbers behind it, by name."""

    reason: str
    numbers: Mapping[str, float] = field(default_factory=dict)


class Reset(Event):
    """The network went back to the source, or to an earlier state."""


class Refused(Event):
    """The batch was predicted and not adapted to."""


class Veto(Event):
    """The guard served the batch without the adapted network."""


class Undone(Event):
    """The guard took back an update that made the network worse."""


class Alarm(Event):
    """The guard is certain that the adapted network has been worse than the source."""


@dataclass(frozen=True)
class LabelWanted(Event):
    """Labels of some samples are worth having."""

    ids: tuple[int, ...] = ()  # of these samples


def _newest(events: Sequence[Event], kind: type[Event]) -> str | None:
    """Return the reason of the last event of one kind, if there is any."""
    return next((event.reason for event in reversed(events) if isinstance(event, kind)), None)


@dataclass(frozen=True)
class Update:
    """What an update reports: its loss, or None if there was no update, and its events."""

    loss: float | None = None
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, repr=False)
class Estimate:
    """An accuracy estimated without labels; one that is unknown is `nan` and says why.

    >>> Estimate(0.712, 0.601, 0.75, gain=0.02)
    Estimate(71.2 % [60.1, 75.0], gain +2.0)
    >>> Estimate(math.nan, unknown="non-finite logits")
    Estimate(unknown: non-finite logits)
    """

    value: float  # a share between 0 and 1
    low: float | None = None  # the interval, for estimators that give one
    high: float | None = None  # the upper end of the interval
    unknown: str | None = None  # why there is no value
    gain: float | None = None  # over the source, on the batches where that was measured
    alarm: str | None = None  # why something is wrong, for estimators that raise alarms

    def __repr__(self) -> str:
        if self.unknown is not None:
            return f"Estimate(unknown: {self.unknown})"
        bounds = f" [{_percent(self.low)}, {_percent(self.high)}]" if self.low is not None else ""
        gain = "" if self.gain is None else f", gain {100 * self.gain:+.1f}"
        return f"Estimate({_percent(self.value)} %{bounds}{gain})"

    def _repr_html_(self) -> str:
        from holdfast.display import facts

        return facts("Estimate", self.facts())

    def facts(self) -> dict[str, str]:
        """Return what is known, in words; what is not is empty."""
        interval = "" if self.low is None else f"{_percent(self.low)} … {_percent(self.high)} %"
        return {
            "accuracy": self.unknown or f"{_percent(self.value)} %",
            "interval": interval,
            "gain over the source": "" if self.gain is None else f"{100 * self.gain:+.1f} points",
            "alarm": self.alarm or "",
        }


@dataclass(frozen=True)
class Beside:
    """Logits of one batch from two networks, for a recovery that compares them."""

    adapted: Tensor  # of the network that predicted, without corrections of the method
    source: Tensor  # of the same network with its source weights


@dataclass(frozen=True)
class Verdict:
    """What the anchor thinks of the predictions that the guard serves for one batch."""

    served: Tensor  # predicted classes, (batch,)
    source: Tensor  # those of the source
    right: Tensor  # probabilities that the served ones are right
    source_right: Tensor
    weighed: Tensor  # probabilities by the anchor for the last samples, (samples, classes)
    logits: Tensor  # of the anchor, (batch, classes), up to a constant
    shift: float  # divergence of recent moments from the source's


@dataclass(frozen=True)
class Step:
    """What one batch did to an adapted model: its predictions, and what is worth recording."""

    logits: Tensor  # (batch, classes), of the predictions
    loss: float | None = None  # None: there was no update on this batch
    estimates: Mapping[str, Estimate] = field(default_factory=dict)  # by the name of the estimator
    events: tuple[Event, ...] = ()  # what else happened, in order
    forwards: float = 0.0  # network passes per sample, estimators included
    backwards: float = 0.0  # backward passes per sample
    gauges: Mapping[str, float] = field(default_factory=dict)  # the method's own numbers, after its update
    ids: tuple[int, ...] = ()  # of the samples, for `feedback`; only of guarded models
    beside: Beside | None = None  # for recoveries that ask for it
    verdict: Verdict | None = None  # of the guard
    estimating: float = 0.0  # forwards of estimators alone

    @property
    def recovered(self) -> str | None:
        """The reason of a reset, where there was one."""
        return _newest(self.events, Reset)

    @property
    def skipped(self) -> str | None:
        """Why the update was left out, where it was."""
        return _newest(self.events, Refused)

    @property
    def wants_label(self) -> tuple[bool, ...]:
        """Which of the samples are worth a label; only of guarded models."""
        wanted = {sample for event in self.events if isinstance(event, LabelWanted) for sample in event.ids}
        return tuple(sample in wanted for sample in self.ids)

    def __repr__(self) -> str:
        """Return the size of the batch and what is worth knowing of it; logits by their shape.

        >>> import torch
        >>> Step(torch.zeros(64, 10), loss=0.31, events=(Reset("collapse"),))
        Step(64 samples, 10 classes, loss 0.31, recovered: collapse)
        """
        parts = [f"{len(self.logits)} samples", f"{self.logits.shape[1]} classes"]
        parts += [f"loss {self.loss:.3g}"] if self.loss is not None else []
        parts += [f"{name} {estimate!r}" for name, estimate in self.estimates.items()]
        parts += [f"{word}: {reason}" for word in ("recovered", "skipped") if (reason := getattr(self, word))]
        return f"Step({', '.join(parts)})"

    def _repr_html_(self) -> str:
        from holdfast.display import facts

        watched = {
            f"{name}: {what}": text
            for name, estimate in self.estimates.items()
            for what, text in estimate.facts().items()
        }
        happened = {type(event).__name__.lower(): event.reason for event in self.events}
        known = {
            "samples": f"{len(self.logits)} of {self.logits.shape[1]} classes",
            "loss": "" if self.loss is None else f"{self.loss:.3g}",
            **watched,
            **happened,
            "passes per sample": f"{self.forwards:g} forward, {self.backwards:g} backward",
            **{name: f"{value:g}" for name, value in self.gauges.items()},
        }
        return facts("Step", known)


@dataclass(frozen=True)
class Row:
    """One batch of a run as it is kept on disk, with predictions compared with labels."""

    position: int  # of the batch's first sample in the stream
    size: int
    domains: Mapping[str, tuple[int, int]]  # domain -> (correct, samples)
    accuracy: float
    confidence: float
    entropy: float
    loss: float | None
    estimates: Mapping[str, Estimate]
    recovered: str | None
    skipped: str | None
    forwards: float
    backwards: float
    step_seconds: float
    expected: float | None = None
    gauges: Mapping[str, float] = field(default_factory=dict)
    estimating: float | None = None  # forwards of estimators alone; None: of an earlier version


def _percent(share: float | None) -> str:
    return f"{100 * (math.nan if share is None else share):.1f}"
