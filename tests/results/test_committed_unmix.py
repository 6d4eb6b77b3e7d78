"""What docs/results/unitta.md says of the random start of UnMIX-TNS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def test_drawn_around_the_source_mean_it_is_better_than_the_source_and_as_released_worse(
    committed: Callable[[str], list[dict[str, Any]]],
) -> None:
    accuracy = {
        (run["recipe"], run["manifest"]["stream"]["label"]): run["summary"]["accuracy"]
        for run in committed("unmix-cifar10.json")
    }
    settings = {setting for _, setting in accuracy}
    assert len(settings) >= 3
    for setting in settings:
        assert accuracy["unmix_tns", setting] < accuracy["source", setting] - 0.05
        assert accuracy["unmix_tns centred", setting] > accuracy["source", setting] + 0.01
