"""The names of what happens in a step, for logs and metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.records import Alarm, Event, Refused, Reset, Undone, Veto

EVENTS: Mapping[str, type[Event]] = {"veto": Veto, "gate": Undone, "alarm": Alarm, "reset": Reset, "skipped": Refused}


def event_names(events: Iterable[Event]) -> tuple[str, ...]:
    """Return the names of events, each once, in the order of `EVENTS`.

    >>> event_names([Reset("collapse"), Veto("the source is believed more")])
    ('veto', 'reset')
    """
    kinds = {type(event) for event in events}
    return tuple(name for name, kind in EVENTS.items() if kind in kinds)
