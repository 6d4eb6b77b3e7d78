"""A race stops what has lost, and nothing else."""

from __future__ import annotations

import pytest

from holdfast.benchmark import Progress
from holdfast.commands.racing import BeatenError, Race

BATCH, BATCHES = 64, 30
COSTS = {"source": 1.0, "cheap": 1.2, "dear": 3.0, "twin": 1.2}


def raced(shares: dict[str, float], worth: float = 1.0) -> Race:
    """Run candidates of these accuracies in lock-step; every third batch is better than the others."""
    race, running = Race("source", worth, None), dict.fromkeys(shares, 0.0)
    race.start({name: (name, 0) for name in shares}, [], BATCH * BATCHES)
    for batch in range(1, BATCHES + 1):
        for name in list(running):
            running[name] += BATCH * shares[name] + (1 if batch % 3 == 0 else -0.5)
            total = BATCH * BATCHES
            seconds = COSTS[name] * batch * BATCH
            try:
                race(Progress(name, name, BATCH * batch, total, round(running[name]), False, seconds))
            except BeatenError:
                del running[name]
    race.look()
    return race


def test_a_dearer_candidate_that_is_not_worth_its_cost_is_stopped_early() -> None:
    race = raced({"source": 0.6, "cheap": 0.8, "dear": 0.805})
    assert race.lost == {"dear": "cheap"}
    assert race.seeds("dear") == 1
    assert race.cost("dear") == pytest.approx(3.0)
    assert race.gain("cheap")[0] == pytest.approx(0.2, abs=0.01)
    assert race.gain("dear")[0] == pytest.approx(0.205, abs=0.01), "by its distance from the one it lost to"


def test_one_that_is_worth_its_cost_goes_on_and_a_cheap_one_stays_beside_it() -> None:
    assert raced({"source": 0.6, "cheap": 0.8, "dear": 0.9}).lost == {}
    assert raced({"source": 0.6, "cheap": 0.8, "dear": 0.805}, worth=0).lost == {}


def test_one_that_is_worse_at_the_same_cost_has_lost() -> None:
    assert raced({"source": 0.6, "cheap": 0.8, "twin": 0.7}).lost == {"twin": "cheap"}
    assert raced({"source": 0.6, "cheap": 0.5}).lost == {"cheap": "source"}


def test_the_source_never_stops() -> None:
    assert raced({"source": 0.2, "cheap": 0.8}).lost == {}


def test_equal_predictions_of_few_samples_prove_little() -> None:
    race = Race("source", 1.0, None)
    race.start({name: (name, 0) for name in ("source", "dear")}, [], 256)
    for batch in (1, 2):
        for name in ("source", "dear"):
            race(Progress(name, name, 64 * batch, 256, 60 * batch, False, COSTS[name] * 64 * batch))
    assert race.lead("dear", "source") == (0.0, pytest.approx(3 / 128))
    assert race.lost == {}


def test_one_that_failed_beats_nobody() -> None:
    race = Race("source", 1.0, None)
    race.start({name: (name, 0) for name in ("source", "cheap", "dear")}, [], 64 * BATCHES)
    for batch in range(1, BATCHES + 1):
        for name, correct in (("source", 32), ("cheap", 64), ("dear", 48)):
            if name != "cheap" or batch <= 4:  # it fails after four batches
                race(Progress(name, name, 64 * batch, 64 * BATCHES, correct * batch, False, COSTS[name] * 64 * batch))
    assert race.lost == {}
