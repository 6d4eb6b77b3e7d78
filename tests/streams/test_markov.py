"""Markov streams: the official rules as recorded, the stationary rules, and properties of every plan."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.data import InMemoryImages
from holdfast.records import Domain, Picks
from holdfast.registry import UnknownNameError
from holdfast.streams import UNITTA_DOMAINS, UNITTA_MAIN, UNITTA_SETTINGS, Chain, MarkovPlan, markov, unitta
from holdfast.streams import unitta_setting as setting_named
from holdfast.streams.chains.capped import official_states, stratum_caps

GOLDEN = json.loads((Path(__file__).parent / "markov_golden.json").read_text())["official"]
NAMES = ["brightness", "contrast", "clean"]
SMALL = InMemoryImages(np.zeros((40, 32, 32, 3), np.uint8), np.arange(40) % 4)
PLANS = [
    unitta(SMALL, setting="(n,u)/(n,u)", corruptions=NAMES, samples_per_stratum=8).plan,
    unitta(SMALL, setting="(i,u)/(1,1)", corruptions=NAMES).plan,
    unitta(SMALL, setting="(n,1)/(i,1)", corruptions=NAMES, mode="stationary", samples=300).plan,
    markov(SMALL, corruptions=NAMES, classes={"stay": 0.9}, samples=70, endless=True).plan,
    markov(SMALL, corruptions=[*NAMES, "brightness+contrast"], class_head_shift=1, classes={"imbalance": 3}).plan,
]


def wide_plan(setting: str, classes: int, **options: Any) -> MarkovPlan:
    chains = setting_named(setting)
    return MarkovPlan(
        [Domain(name) for name in UNITTA_DOMAINS],
        np.arange(10_000) % classes,
        Chain(size=15, **chains["domains"]),
        [Chain(size=classes, **chains["classes"])],
        **options,
    )


@pytest.mark.parametrize("entry", GOLDEN, ids=lambda entry: f"{entry['classes']} {entry['setting']}")
def test_the_official_mode_does_what_the_official_code_did(entry: dict[str, Any]) -> None:
    plan = wide_plan(entry["setting"], entry["classes"], mode="official", seed=5)
    picks, report = plan.picks(0, plan.length or 0), plan.report()
    classes = plan.labels[picks.samples]
    assert (picks.domains[0], classes[0]) == (0, 0)
    if len(set(entry["lengths"])) == 1:  # decided by caps
        assert plan.length == entry["lengths"][0]
    else:
        assert 0.7 * min(entry["lengths"]) < (plan.length or 0) < 1.6 * max(entry["lengths"])
        assert np.bincount(picks.domains * 100 + classes).max() == 10_000 // entry["classes"]
        assert report.repeats == 0
    if "domain_counts" in entry:
        assert report.domains.counts.tolist() == entry["domain_counts"]
    if "class_counts" in entry:
        assert report.classes.counts.tolist() == entry["class_counts"]
    assert report.domains.realised_stay == pytest.approx(entry["domain_stay"], abs=0.02)
    assert report.classes.realised_stay == pytest.approx(entry["class_stay"], abs=0.02)
    if entry["setting"].startswith("(i,u)"):  # the tail is used up first
        quarter = (plan.length or 0) // 4
        shares = [(classes[:quarter] == 0).mean(), (classes[-quarter:] == 0).mean()]
        assert shares == pytest.approx(entry["head_class_quarters"], abs=0.02)


def test_a_capped_chain_that_is_not_iid_keeps_its_caps_and_its_stays() -> None:
    domains, classes = Chain(size=6, stay=0.5, imbalance=5), Chain(size=10, stay=0.95, imbalance=10)
    assert not domains.is_feasible
    path, beside = official_states(domains, classes, 200, np.random.default_rng(0))
    caps = stratum_caps(domains, classes, 200)
    assert np.bincount(path).tolist() == caps.sum(1).tolist()
    assert len(beside) == len(path)
    quarter = len(path) // 4  # before anything is closed
    assert np.mean(path[1:quarter] == path[: quarter - 1]) == pytest.approx(0.5, abs=0.06)
    with pytest.raises(ValueError, match="two infeasible chains"):
        official_states(domains, Chain(size=10, imbalance=3), 20, np.random.default_rng(0))


def test_a_new_domain_of_the_official_mode_begins_with_a_class_drawn_anew() -> None:
    domains, classes = Chain(size=200, stay="continual"), Chain(size=10, stay=0.99)
    path, beside = official_states(domains, classes, 4, np.random.default_rng(0))
    changes = np.flatnonzero(path[1:] != path[:-1])
    assert len(changes) == 199
    kept = beside[changes + 1] == beside[changes]
    assert kept.mean() == pytest.approx(0.1, abs=0.07)  # one in ten by chance; the chain alone would keep 99 %
    inside = np.delete(beside[1:] == beside[:-1], changes)
    assert inside.mean() == pytest.approx(0.99, abs=0.01)
    assert set(beside[changes + 1]) == set(range(10))


def test_an_honest_long_tail_is_the_same_at_any_time() -> None:
    plan = wide_plan("(i,u)/(i,1)", 10, samples=100_000)
    classes = plan.labels[plan.picks(0, 100_000).samples]
    shares = [(quarter == 0).mean() for quarter in np.array_split(classes, 4)]
    assert shares == pytest.approx([plan.class_chains[0].shares[0]] * 4, abs=0.012)
    assert plan.report().classes.realised_stay == pytest.approx(0.1486, abs=0.004)


def test_a_report_counts_what_the_picks_show() -> None:
    plan = wide_plan("(n,1)/(n,u)", 10, samples=20_000, seed=3)
    picks, report = plan.picks(0, 20_000), plan.report()
    classes = plan.labels[picks.samples]
    assert report.classes.realised_stay == np.mean(classes[1:] == classes[:-1])
    assert report.domains.realised_shares == pytest.approx(np.bincount(picks.domains) / 20_000)
    assert report.repeats == 20_000 - len(set(zip(picks.samples.tolist(), picks.domains.tolist(), strict=True)))
    assert report.domains.shares is not None
    assert report.domains.shares[0] / report.domains.shares[-1] == pytest.approx(5)


def test_strata_deal_all_their_samples_before_any_comes_again() -> None:
    stream = markov(SMALL, corruptions=NAMES, samples=3000)
    picks = stream.plan.picks(0, 3000)
    for domain in range(3):
        for label in range(4):
            dealt = picks.samples[(picks.domains == domain) & (SMALL.labels[picks.samples] == label)]
            assert set(dealt[:10]) == set(np.flatnonzero(SMALL.labels == label))
            assert dealt[:10].tolist() == dealt[10:20].tolist()


def test_a_used_up_stratum_may_end_the_stream_or_be_an_error() -> None:
    options: dict[str, Any] = {"corruptions": NAMES, "classes": {"stay": 0.9, "imbalance": 3}, "samples": 500}
    stopped = markov(SMALL, **options, exhaust="stop").plan
    assert stopped.length is not None
    assert stopped.length < 500
    assert stopped.report().repeats == 0
    assert markov(SMALL, **options).plan.report(0, stopped.length + 1).repeats == 1
    with pytest.raises(ValueError, match=f"first sample repeats at position {stopped.length}; pass samples="):
        markov(SMALL, **options, exhaust="error")
    enough = markov(SMALL, **{**options, "samples": stopped.length}, exhaust="error").plan
    assert np.array_equal(enough.picks(0, 20).samples, stopped.picks(0, 20).samples)


@given(st.sampled_from(PLANS), st.data())
@settings(max_examples=40, deadline=None)
def test_any_stretch_is_part_of_the_whole(plan: MarkovPlan, data: st.DataObject) -> None:
    end = plan.length or 300
    start, stop = sorted(data.draw(st.tuples(st.integers(0, end), st.integers(0, end))))
    whole, part = plan.picks(0, end), plan.picks(start, stop)
    for field in vars(Picks(*[np.empty(0)] * 3)):
        assert np.array_equal(getattr(part, field), getattr(whole, field)[start:stop])


def test_an_endless_stream_is_read_far_out_at_the_cost_of_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = markov(SMALL, corruptions=NAMES, classes={"stay": 0.9}, samples=100, endless=True, seed=1)
    assert stream.length is None
    drawn = []
    states = Chain.states
    monkeypatch.setattr(Chain, "states", lambda *given, **more: drawn.append(1) or states(*given, **more))
    far = stream.plan.picks(10**9 + 50, 10**9 + 150)
    assert len(drawn) == 2 * 2  # both chains, in two pieces
    again = pickle.loads(pickle.dumps(stream.plan))
    again.picks(0, 1000)
    assert np.array_equal(again.picks(10**9 + 50, 10**9 + 150).samples, far.samples)
    assert not np.array_equal(stream.plan.picks(0, 100).samples, stream.plan.picks(100, 200).samples)


def test_batches_are_the_same_from_anywhere_and_seeds_differ() -> None:
    stream = unitta(SMALL, setting="(n,1)/(1,1)", corruptions=NAMES, samples_per_stratum=4)
    whole = [batch.domains for batch in stream.starting_at(0, batch_size=8)]
    assert [batch.domains for batch in stream.starting_at(16, batch_size=8)] == whole[2:]
    other = unitta(SMALL, setting="(n,1)/(1,1)", corruptions=NAMES, samples_per_stratum=4, seed=1)
    assert stream.protocol == other.protocol
    assert stream.fingerprint != other.fingerprint
    assert not np.array_equal(stream.plan.picks(0, 40).samples, other.plan.picks(0, 40).samples)
    changed = unitta(SMALL, setting="(n,1)/(1,1)", corruptions=NAMES, samples_per_stratum=4, classes={"head": 1})
    assert changed.protocol != stream.protocol


def test_settings_have_the_names_of_the_paper() -> None:
    assert len(UNITTA_SETTINGS) == 24
    assert len(UNITTA_MAIN) == len(set(UNITTA_MAIN)) == 12
    assert set(UNITTA_MAIN) < set(UNITTA_SETTINGS)
    assert setting_named("cotta") == setting_named("i1/11")
    assert setting_named("roid")["domains"] == {"stay": "iid", "imbalance": 1.0}
    with pytest.raises(UnknownNameError, match="did you mean"):
        setting_named("(n,x)/(1,1)")
    alone = unitta(SMALL, setting="lame", corruptions=["contrast"])
    assert alone.length == 40
    with pytest.raises(ValueError, match="needs exactly one corruption, got 15"):
        unitta(SMALL, setting="lame")


def test_every_domain_may_have_another_head_class() -> None:
    plan = markov(SMALL, corruptions=NAMES, class_head_shift=1, classes={"imbalance": 8}, samples=9000).plan
    picks = plan.picks(0, 9000)
    for domain in range(3):
        assert np.bincount(SMALL.labels[picks.samples[picks.domains == domain]]).argmax() == domain
    assert plan.report().classes.shares is None  # no single chain has them


def test_only_classes_that_occur_are_states() -> None:
    sparse = InMemoryImages(np.zeros((6, 32, 32, 3), np.uint8), np.array([2, 2, 7, 7, 9, 9]))
    plan = markov(sparse, corruptions=["clean"], classes={"stay": 0.8}, samples=500).plan
    assert set(sparse.labels[plan.picks(0, 500).samples]) == {2, 7, 9}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"corruptions": []}, "at least one sample and one domain"),
        ({"samples": 0}, "samples of stream 'markov' must be a whole number from 1 to"),
        ({"severity": 6}, "severity of stream 'markov' must be a number from 0 to 5, got 6"),
        ({"mode": "exact"}, "mode of stream 'markov' must be 'official' or 'stationary', got 'exact'"),
        ({"exhaust": "wait"}, "exhaust of stream 'markov' must be 'cycle', 'stop' or 'error', got 'wait'"),
        ({"classes": [{}, {}]}, "one class chain or one for each domain"),
        ({"classes": Chain(size=5)}, "must have size=4, got 5"),
        ({"classes": {"stay": 0.3, "imbalance": 4}}, "pass stay=0.813 or more"),
        ({"samples_per_stratum": 3}, "applies to mode='official'"),
        ({"endless": True, "exhaust": "stop"}, "needs exhaust=.cycle., got .stop."),
        ({"mode": "official", "samples": 3}, "sets its own length"),
        ({"mode": "official", "class_head_shift": 1}, "sets its own length"),
        ({"mode": "official", "domains": {"stay": 0.9, "holding": "fixed"}}, "sets its own length"),
    ],
)
def test_impossible_streams_are_refused_at_once(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        markov(SMALL, **{"corruptions": NAMES, **options})
