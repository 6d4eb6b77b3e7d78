"""Chains: parameters as recorded from the official code, and statistical tests of their draws."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, chi2, norm

from holdfast.streams import UNITTA_SETTINGS, Chain
from holdfast.streams.chains.chain import chain_of, states_along
from holdfast.streams.chains.holding import HOLDINGS
from holdfast.streams.chains.strata import turns

GOLDEN = json.loads((Path(__file__).parent / "markov_golden.json").read_text())
SAMPLES = 500_000
MOST_TILES = 50  # of each side of a matrix of moves: thousands of states share half a million of them


def matrix(chain: Chain) -> NDArray[np.float64]:
    """Return P, which the sampler never builds."""
    weights = np.full(chain.size, 1.0) if chain.leaving is None else np.array(chain.leaving)
    weights = chain.shares if chain.stay == "iid" else weights
    leaving = np.tile(weights, (chain.size, 1)) * (1 - np.eye(chain.size))
    leaving /= leaving.sum(1, keepdims=True)
    return (1 - chain.stays)[:, None] * leaving + np.diag(chain.stays)


@cache
def standard_errors(chain: Chain, samples: int) -> NDArray[np.float64]:
    """Return the variances of the realised shares: v = 2·π·diag(Z) − π − π², Z = (I − P + 1πᵀ)⁻¹."""
    fundamental = np.linalg.inv(np.eye(chain.size) - matrix(chain) + chain.shares)
    return np.sqrt((2 * chain.shares * np.diag(fundamental) - chain.shares - chain.shares**2) / samples)


def check_law(chain: Chain, states: NDArray[np.integer]) -> None:
    """Test shares, stays and transitions; with many states one may deviate further."""
    far = max(4.0, float(norm.isf(1e-3 / chain.size / 2)))
    moves = np.bincount(states[:-1].astype(np.int64) * chain.size + states[1:], minlength=chain.size**2)
    moves = moves.reshape(chain.size, chain.size)
    visits = moves.sum(1)
    errors = standard_errors(chain, len(states))
    assert (np.abs(np.bincount(states) / len(states) - chain.shares) <= far * errors).all()
    stayed = np.diag(moves)  # independent draws: binomial, and of a thousand states far from normal
    fewer, more = binom.cdf(stayed, visits, chain.stays), binom.sf(stayed - 1, visits, chain.stays)
    assert (np.minimum(fewer, more) >= norm.sf(far)).all()
    left = moves - np.diag(np.diag(moves))
    leaving = matrix(chain) - np.diag(chain.stays)
    wanted = left.sum(1, keepdims=True) * leaving / leaving.sum(1, keepdims=True)
    if chain.size > MOST_TILES:
        left, wanted = (tiles(counts, chain.size // MOST_TILES) for counts in (left, wanted))
    known = wanted > 0
    statistic = float(((left - wanted)[known] ** 2 / wanted[known]).sum())
    assert chain.size == 2 or chi2.sf(statistic, known.sum() - len(left)) > 1e-3


def tiles(counts: NDArray[Any], size: int) -> NDArray[Any]:
    """Return the sums over tiles of neighbouring states."""
    edges = np.arange(0, len(counts), size)
    return np.add.reduceat(np.add.reduceat(counts, edges, 0), edges, 1)


@pytest.mark.parametrize("entry", GOLDEN["chains"], ids=lambda e: f"{e['n']}-{e['alpha1']:.2g}-{e['beta']:g}")
def test_parameters_are_the_recorded_ones(entry: dict[str, Any]) -> None:
    chain = Chain(size=entry["n"], stay=entry["alpha1"], imbalance=entry["beta"])
    assert chain.is_feasible == entry["feasible_official"]
    if chain.is_feasible:
        assert chain.stays == pytest.approx(entry["alpha"], abs=1e-11)
        assert chain.shares == pytest.approx(entry["stationary"], abs=1e-11)
        assert chain.shares @ chain.stays == pytest.approx(entry["mean_self_transition"], abs=1e-11)
        assert standard_errors(chain, 1) ** 2 == pytest.approx(entry["asymptotic_variance"], rel=1e-8)
        chain.check()
    assert chain.tail[0] / chain.tail[-1] == pytest.approx(entry["beta"])


def test_the_joint_chain_is_the_recorded_product() -> None:
    domains, classes = Chain(size=15, stay=0.85, imbalance=5), Chain(size=10, stay=0.95, imbalance=10)
    joint = np.kron(matrix(domains), matrix(classes))
    indices = np.arange(150)
    assert np.trace(joint) == pytest.approx(74.19490029693154)
    assert (joint * np.outer(indices + 1, indices + 2)).sum() == pytest.approx(924612.0064676439)


@pytest.mark.parametrize(
    ("setting", "classes"),
    [
        pytest.param(setting, classes, marks=[] if row % 3 == column else [pytest.mark.slow])
        for row, setting in enumerate(UNITTA_SETTINGS)
        for column, classes in enumerate((10, 100, 1000))
    ],
)
def test_half_a_million_samples_of_every_setting_obey_its_law(setting: str, classes: int) -> None:
    seed = list(UNITTA_SETTINGS).index(setting)
    rng = np.random.default_rng(seed)
    chains = [Chain(size=n, **UNITTA_SETTINGS[setting][what]) for n, what in ((15, "domains"), (classes, "classes"))]
    paths = [chain.states(SAMPLES, rng) for chain in chains]
    for chain, states in zip(chains, paths, strict=True):
        if chain.is_continual:
            assert (np.diff(states) >= 0).all()
            assert np.bincount(states) == pytest.approx(chain.shares * SAMPLES, abs=1)
        else:
            check_law(chain, states)
            slope = np.polyfit(np.arange(chain.size), np.log(np.bincount(states)), 1)[0]
            assert np.exp(-slope * (chain.size - 1)) == pytest.approx(chain.imbalance, rel=0.15)
    stays = [states[1:] == states[:-1] for states in paths]
    both = np.mean(stays[0] & stays[1])
    expected = stays[0].mean() * stays[1].mean()
    assert abs(both - expected) <= 4 * np.sqrt(both * (1 - both) / SAMPLES)


@pytest.mark.parametrize(
    "chain",
    [
        Chain(size=10, stay=0.02, imbalance=1.01),
        Chain(size=3, stay=0.0),
        Chain(size=2, stay=0.7, imbalance=1.5),
        Chain(size=6, stay=0.9, imbalance=4, head=2, head_to_tail=(5, 3, 1, 0, 2, 4)),
        Chain(size=5, stay=0.8, imbalance=3, leaving=(1, 8, 2, 0.5, 1)),
    ],
    ids=["anti-correlated", "never twice", "two states", "another head", "not uniformly leaving"],
)
def test_what_goes_beyond_the_paper_obeys_its_law_too(chain: Chain) -> None:
    chain.check()
    states = chain.states(200_000, np.random.default_rng(1))
    if chain.stay:
        check_law(chain, states)
    else:
        assert (states[1:] != states[:-1]).all()


def test_head_and_order_say_who_is_frequent() -> None:
    chain = Chain(size=4, stay=0.9, imbalance=5, head_to_tail=(2, 0, 3, 1), head=1)
    assert np.argsort(-chain.shares).tolist() == [0, 3, 1, 2]
    assert chain.stays.argmax() == 0


@pytest.mark.parametrize("holding", HOLDINGS)
def test_holding_times_keep_stays_and_shares(holding: str) -> None:
    chain = Chain(size=5, stay=0.9, imbalance=3, holding=holding)
    states = chain.states(400_000, np.random.default_rng(0))
    assert np.bincount(states) / len(states) == pytest.approx(chain.shares, abs=0.02)
    assert np.mean(states[1:] == states[:-1]) == pytest.approx(chain.shares @ chain.stays, abs=0.01)
    runs = np.diff(np.flatnonzero(np.concatenate([[True], states[1:] != states[:-1]])))
    of_head = runs[states[np.flatnonzero(np.diff(states))] == 0]
    spread = {"geometric": 9.5, "fixed": 0.0, "uniform": np.sqrt(30), "dirichlet": 28.6}[holding]
    assert (of_head.mean(), of_head.std()) == (pytest.approx(10, rel=0.05), pytest.approx(spread, rel=0.08, abs=0.01))


def test_each_domain_may_have_its_own_class_chain() -> None:
    chains = [Chain(size=6, stay=0.9, imbalance=4, head=head) for head in (0, 3)]
    domains = Chain(size=2, stay=0.999).states(300_000, np.random.default_rng(0))
    classes = states_along(chains, domains, np.random.default_rng(1))
    for domain, chain in enumerate(chains):
        arriving = np.flatnonzero(domains[1:] == domain)
        stays = classes[arriving + 1] == classes[arriving]
        visits = np.bincount(classes[arriving], minlength=6)
        stayed = np.bincount(classes[arriving][stays], minlength=6)
        assert stayed / visits == pytest.approx(chain.stays, abs=0.01)
        assert visits / visits.sum() == pytest.approx(chain.shares, abs=0.03)
    same = states_along([chains[0]] * 2, domains, np.random.default_rng(2))
    check_law(chains[0], same)


def test_the_first_and_the_next_state_are_drawn_by_the_shares_of_their_own_domain() -> None:
    heads = [Chain(size=3, imbalance=1e12, head=head) for head in (0, 2)]  # in effect all samples are of the head
    for seed in range(20):
        first = [int(chain.states(1, np.random.default_rng(seed))[0]) for chain in heads]
        along = [
            states_along(heads, np.array(domains, np.int32), np.random.default_rng(seed)).tolist()
            for domains in ([0, 1], [1, 0])
        ]
        assert (first, along) == ([0, 2], [[0, 2], [2, 0]])


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"stay": 0.5, "imbalance": 5}, r"a stay of -1.5; pass stay=0.82 or more, imbalance=1.8 or less"),
        ({"stay": 0.05, "imbalance": 1.1}, r"pass stay=0.091 or more, imbalance=1.052 or less, or stay='iid'"),
        ({"stay": 1.2}, "stay of the chain of classes must be a number from 0 to 1 or 'iid' or 'continual', got 1.2"),
        ({"stay": "sometimes"}, "must be a number from 0 to 1 or 'iid' or 'continual', got 'sometimes'"),
        ({"imbalance": 0.5}, "imbalance of the chain of classes must be a number of at least 1, got 0.5"),
        ({"head_to_tail": [0, 1]}, "each of the states 0 to 9 once"),
        ({"stay": 0.9, "leaving": [1, 2]}, "positive weight"),
        ({"stay": 0.9, "holding": "fixd"}, "did you mean 'fixed'"),
        ({"holding": "fixed"}, "drop them or pass a number"),
        ({"stays": 0.9}, "did you mean 'stay'"),
    ],
)
def test_impossible_chains_are_refused_with_what_would_do(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        chain_of("classes", 10, options).check()


@pytest.mark.parametrize(("stay", "imbalance"), [(0.82, 5), (0.5, 1.8), (0.091, 1.1)])
def test_what_a_refusal_names_is_accepted(stay: float, imbalance: float) -> None:
    Chain(size=10, stay=stay, imbalance=imbalance).check()


@pytest.mark.parametrize("stay", ["iid", 0.0, 0.95])
def test_a_longer_stream_begins_as_a_shorter_one_does(stay: Any) -> None:
    chain = Chain(size=7, stay=stay)
    short, long = (chain.states(length, np.random.default_rng(4)) for length in (1000, 40_000))
    assert np.array_equal(long[:1000], short)
    along = [states_along([chain] * 7, domains, np.random.default_rng(4)) for domains in (short, long)]
    assert np.array_equal(along[1][:1000], along[0])


def test_turns_count_what_came_before() -> None:
    strata = np.random.default_rng(0).integers(0, 300, 5000)
    counted: dict[int, int] = {}
    expected = []
    for stratum in strata.tolist():
        expected.append(counted.get(stratum, 0))
        counted[stratum] = expected[-1] + 1
    assert turns(strata).tolist() == expected
    assert turns(strata[:0]).tolist() == []


def returns(states: NDArray[np.int32]) -> float:
    """Return the share of visits that are the same as the visit before the last."""
    visits = states[np.flatnonzero(np.diff(states, prepend=-1))]
    return float((visits[2:] == visits[:-2]).mean())


@pytest.mark.parametrize("leaving", [None, (1.0, 2.0, 3.0, 4.0)])
def test_a_chain_of_second_order_returns_more_often_and_keeps_stays_and_shares(
    leaving: tuple[float, ...] | None,
) -> None:
    chain = Chain(size=4, stay=0.6, imbalance=2, leaving=leaving, order=2, revisit=0.7)
    plain = replace(chain, order=1)
    states, other = (one.states(200_000, np.random.default_rng(0)) for one in (chain, plain))
    assert np.bincount(states) / len(states) == pytest.approx(chain.shares, abs=0.01)
    assert float((states[1:] == states[:-1]).mean()) == pytest.approx(float(chain.shares @ chain.stays), abs=0.01)
    assert returns(states) == pytest.approx(0.7 + 0.3 * returns(other), abs=0.02)
    assert np.array_equal(chain.states(5_000, np.random.default_rng(0)), states[:5_000])


def test_a_chain_of_third_order_returns_to_earlier_visits_too() -> None:
    states = Chain(size=8, stay=0.5, order=3, revisit=1.0).states(20_000, np.random.default_rng(0))
    visits = states[np.flatnonzero(np.diff(states, prepend=-1))]
    before, earlier = visits[3:] == visits[1:-2], visits[3:] == visits[:-3]
    assert (before | earlier).mean() > 0.7  # the rest had come from where they are
    assert min(before.mean(), earlier.mean()) > 0.2
    assert np.bincount(states, minlength=8).min() > 1_500


def test_the_order_is_part_of_the_fingerprint_only_where_it_counts() -> None:
    assert "order" not in Chain(size=3, stay=0.5).spec()
    assert Chain(size=3, stay=0.5, order=2).spec()["order"] == 2
    for wrong in ({"order": 0}, {"order": 2, "revisit": 1.5}, {"order": 3, "leaving": (1.0, 1.0, 2.0)}):
        with pytest.raises(ValueError, match=r"order|revisit"):
            Chain(size=3, stay=0.5, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="have no effect with stay='iid'"):
        Chain(size=3, stay="iid", order=2)
