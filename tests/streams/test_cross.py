"""Cross streams: the path stays calibrated, classes are correlated, and any position is cheap."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from holdfast.data import InMemoryImages
from holdfast.streams import Calibration, Chain, CrossPlan, Transition, Walk, ccc, cross

LABELS = np.arange(60) % 5
DATA = InMemoryImages(np.zeros((60, 32, 32, 3), np.uint8), LABELS)
PATHS = (
    Transition("contrast", "brightness", ((2, 0), (1, 0), (1, 1), (0, 1)), (30.0, 50.0, 40.0, 60.0)),
    Transition("brightness", "pixelate", ((1, 0), (0, 0)), (35.0, 45.0)),
)
CALIBRATION = Calibration(PATHS, 40.0)
FAR = 10**12


def plan_of(transitions: Chain | None = None, length: int | None = None) -> CrossPlan:
    walk = Walk(CALIBRATION, 60, images_per_step=10, length=length)
    return CrossPlan(walk, LABELS, Chain(size=5, stay=0.9, imbalance=3), transitions)


def test_corruptions_follow_the_walk_and_classes_their_chain() -> None:
    plan = plan_of()
    picks, walked = plan.picks(FAR, FAR + 500), plan.walk.picks(FAR, FAR + 500)
    assert np.array_equal(picks.domains, walked.domains)
    assert np.array_equal(picks.severities, walked.severities)
    positions = np.arange(FAR, FAR + 100)
    assert np.array_equal(plan.expected(positions), plan.walk.expected(positions))
    report = plan.report(FAR, FAR + 50_000).classes
    assert report.shares is not None
    assert report.stays is not None
    assert report.realised_stay == pytest.approx(report.shares @ report.stays, abs=0.01)
    assert report.realised_shares == pytest.approx(report.shares, abs=0.04)


def test_a_chain_of_transitions_keeps_every_sample_on_a_calibrated_path() -> None:
    plan = plan_of(Chain(size=2, stay=0.9))
    picks = plan.picks(FAR, FAR + 20_000)
    stays = picks.domains[1:] == picks.domains[:-1]
    assert stays.mean() == pytest.approx(0.9, abs=0.02)
    step = np.arange(FAR, FAR + 20_000) // 10
    expected = plan.expected(np.arange(FAR, FAR + 20_000))
    for domain, path in enumerate(PATHS):
        here = picks.domains == domain
        points = np.array(path.points)[step[here] % len(path.points)]
        assert np.array_equal(picks.severities[here], points / 4)
        assert np.array_equal(expected[here], np.array(path.expected_percent)[step[here] % len(path.points)] / 100)


def test_any_place_is_the_same_however_it_is_reached_and_draws_only_its_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(Chain(size=2, stay=0.9))
    far = plan.picks(FAR, FAR + 64)
    again = pickle.loads(pickle.dumps(plan))
    drawn = []
    states = Chain.states
    monkeypatch.setattr(Chain, "states", lambda *given, **more: drawn.append(1) or states(*given, **more))
    for start in range(FAR - 64, FAR + 64, 16):
        again.picks(start, start + 16)
    assert len(drawn) == 2  # both chains, once
    assert np.array_equal(again.picks(FAR, FAR + 64).samples, far.samples)
    border = 2**18
    pair = again.picks(border - 5, border + 5).samples
    assert np.array_equal(pair[5:], again.picks(border, border + 5).samples)


def test_the_stream_is_a_walk_but_for_its_classes() -> None:
    walk = ccc(DATA, calibration=CALIBRATION, images_per_step=3)
    stream = cross(DATA, calibration=CALIBRATION, images_per_step=3, classes={"stay": 0.9})
    assert (stream.length, stream.domains, stream.rendering.seed) == (walk.length, walk.domains, 43)
    assert stream.fingerprint != walk.fingerprint
    batches = list(stream.starting_at(4, batch_size=5))
    assert [batch.expected for batch in batches] == [batch.expected for batch in walk.starting_at(4, batch_size=5)]
    other = cross(DATA, calibration=CALIBRATION, images_per_step=3, classes={"stay": 0.8})
    assert other.protocol != stream.protocol
    assert cross(DATA, calibration=CALIBRATION, cycles=None).length is None


def test_chains_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="must have size=2, got"):
        plan_of(Chain(size=3))
    with pytest.raises(ValueError, match="pass stay="):
        cross(DATA, calibration=CALIBRATION, classes={"stay": 0.4, "imbalance": 9})
    with pytest.raises(ValueError, match="at most 20"):
        plan_of(length=20).picks(0, 21)
