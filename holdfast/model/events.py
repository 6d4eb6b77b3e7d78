"""What happened in a step besides a prediction and an update."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

from holdfast.records import Step

__all__ = ["EVENTS", "Event", "events_of"]

Event: TypeAlias = Literal["veto", "gate", "alarm", "reset", "skipped"]
EVENTS: tuple[Event, ...] = get_args(Event)
COUNTED: Mapping[str, Event] = {"vetoes": "veto", "undone": "gate", "alarms": "alarm"}  # by the guard, in its gauges


def events_of(step: Step, before: Mapping[str, float]) -> tuple[Event, ...]:
    """Return the events of a step; `before` are the gauges of the method before it.

    >>> import torch
    >>> events_of(Step(torch.zeros(4, 10), recovered="collapse", gauges={"vetoes": 3.0}), before={"vetoes": 2.0})
    ('veto', 'reset')
    """
    happened = {event: step.gauges.get(name, 0) > before.get(name, 0) for name, event in COUNTED.items()}
    happened |= {"reset": step.recovered is not None, "skipped": step.skipped is not None}
    return tuple(event for event in EVENTS if happened[event])
