from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.data import Digits, InMemoryImages
from holdfast.records import Picks
from holdfast.streams import ORDERS, Plan, continual, correlated, gradual, mixed_domains, reset_each_shift
from holdfast.streams.plans.orders import Correlated

NAMES = ["gaussian_noise", "contrast", "brightness"]
SMALL = InMemoryImages(np.zeros((23, 32, 32, 3), np.uint8), np.arange(23) % 4)
SETTINGS = {
    "continual": lambda order: continual(SMALL, corruptions=NAMES, order=order, samples_per_domain=30).plan,
    "reset_each_shift": lambda order: reset_each_shift(SMALL, corruptions=NAMES, order=order, cycles=2).plan,
    "mixed_domains": lambda order: mixed_domains(SMALL, corruptions=[*NAMES, "brightness+contrast"], order=order).plan,
    "gradual": lambda order: gradual(SMALL, corruptions=NAMES, order=order, samples_per_domain=5).plan,
    "endless": lambda order: continual(SMALL, corruptions=NAMES, order=order, cycles=None).plan,
}
PLANS = [make(order) for make, order in itertools.product(SETTINGS.values(), ORDERS)]


def same(one: Picks, other: Picks) -> bool:
    return all(np.array_equal(getattr(one, field), getattr(other, field)) for field in vars(one))


@given(st.sampled_from(PLANS), st.data())
def test_any_stretch_is_part_of_the_whole(plan: Plan, data: st.DataObject) -> None:
    end = plan.length or 300
    start, stop = sorted(data.draw(st.tuples(st.integers(0, end), st.integers(0, end))))
    whole = plan.picks(0, end)
    part = Picks(whole.samples[start:stop], whole.domains[start:stop], whole.severities[start:stop])
    assert same(plan.picks(start, stop), part)


@given(st.sampled_from(PLANS), st.integers(0, 200))
def test_breaks_are_where_the_condition_or_the_episode_changes(plan: Plan, position: int) -> None:
    end = plan.length or 300
    position = min(position, end - 1)
    upcoming = plan.next_break(position)
    assert upcoming is None or position < upcoming < end or plan.length is None
    if len(plan.domains) == 4:  # mixed
        assert upcoming is None
        return
    inside = plan.picks(position, end if upcoming is None else upcoming)
    assert len(np.unique(inside.domains)) == len(np.unique(inside.severities, axis=0)) == 1
    if upcoming is not None:
        after = plan.picks(upcoming, upcoming + 1)
        changed = after.domains[0] != inside.domains[0] or not np.array_equal(after.severities, inside.severities[:1])
        assert changed or plan.starts_episode(upcoming)


@pytest.mark.parametrize("order", list(ORDERS))
def test_continual_goes_once_through_all_samples_of_every_domain(digits: Digits, order: str) -> None:
    stream = continual(digits, corruptions=NAMES, order=order)
    picks = stream.plan.picks(0, stream.length or 0)
    assert stream.length == 3 * 898
    assert np.array_equal(picks.domains, np.repeat([0, 1, 2], 898))
    for domain in range(3):
        assert np.array_equal(np.sort(picks.samples[picks.domains == domain]), np.arange(898))
    assert not np.array_equal(picks.samples[:898], picks.samples[898:1796])


def test_the_order_changes_when_a_sample_comes_and_not_which(digits: Digits) -> None:
    shuffled, clustered = (
        continual(digits, corruptions=["brightness"], samples_per_domain=40, order=order).plan.picks(0, 40).samples
        for order in ("shuffled", "correlated")
    )
    assert len(np.unique(shuffled)) == 40
    assert np.array_equal(np.sort(shuffled), np.sort(clustered))
    assert not np.array_equal(shuffled, clustered)


def test_every_domain_has_a_seeded_choice_of_its_own(digits: Digits) -> None:
    flat, clean, other_seed = (
        set(
            continual(digits, corruptions=["contrast", "clean"], samples_per_domain=40, seed=seed)
            .plan.picks(*span)
            .samples
        )
        for seed, span in ((0, (0, 40)), (0, (40, 80)), (1, (0, 40)))
    )
    assert len(flat) == len(clean) == len(other_seed) == 40
    assert max(len(flat & clean), len(flat & other_seed)) < 20


def test_more_samples_than_the_data_has_go_through_it_again_in_a_new_order() -> None:
    stream = continual(SMALL, corruptions=NAMES, samples_per_domain=60)
    first, second, third = np.split(stream.plan.picks(0, 60).samples, [23, 46])
    assert np.array_equal(np.sort(first), np.arange(23))
    assert np.array_equal(np.sort(second), np.arange(23))
    assert not np.array_equal(first, second)
    assert len(np.unique(third)) == 14
    assert [len(batch) for batch in stream.starting_at(0, batch_size=50)] == [50, 10] * 3


def test_a_domain_may_come_twice_and_cycles_go_round() -> None:
    plan = continual(SMALL, corruptions=["brightness", "clean", "brightness"], cycles=2, samples_per_domain=4).plan
    assert [domain.name for domain in plan.domains] == ["brightness", "clean"]
    assert plan.picks(0, 24).domains.tolist() == [*[0] * 4, *[1] * 4, *[0] * 8, *[1] * 4, *[0] * 4]
    assert [plan.next_break(position) for position in (0, 4, 8, 12, 16, 20)] == [4, 8, 16, 16, 20, None]


def test_mixed_domains_have_equal_shares_everywhere_and_no_break(digits: Digits) -> None:
    plan = mixed_domains(digits, corruptions=NAMES, cycles=2).plan
    picks = plan.picks(0, 3 * 898)
    pairs = set(zip(picks.samples.tolist(), picks.domains.tolist(), strict=True))
    assert len(pairs) == 3 * 898  # each sample once in each domain
    for part in np.array_split(picks.domains, 4):
        assert np.bincount(part) / len(part) == pytest.approx(1 / 3, abs=0.07)
    assert plan.length == 2 * 3 * 898
    assert {plan.next_break(position) for position in (0, 1, 2693, 2694, 5387)} == {None}


def test_gradual_climbs_and_comes_down_within_each_domain() -> None:
    plan = gradual(SMALL, corruptions=["brightness", "brightness+contrast"], samples_per_domain=2).plan
    picks = plan.picks(0, plan.length or 0)
    climb = np.repeat([1, 2, 3, 4, 5, 4, 3, 2, 1], 2)
    assert np.array_equal(picks.severities, [*([s, 0] for s in climb), *([s, s] for s in climb)])
    assert np.array_equal(picks.domains, np.repeat([0, 1], 18))
    steep = gradual(SMALL, corruptions=["brightness"], severities=(0.5, 4.5)).plan
    assert np.array_equal(steep.picks(0, 46).severities[:, 0], np.repeat([0.5, 4.5], 23))


def test_only_reset_each_shift_starts_episodes() -> None:
    reset = reset_each_shift(SMALL, corruptions=NAMES, order="sorted", samples_per_domain=30, cycles=2).plan
    assert [position for position in range(180) if reset.starts_episode(position)] == [0, 30, 60, 90, 120, 150]
    assert not any(plan.starts_episode(p) for plan in (PLANS[0], PLANS[-1]) for p in range(60))
    same_domain = reset_each_shift(SMALL, corruptions=["brightness"], cycles=2).plan
    assert same_domain.next_break(0) == 23  # a new episode ends the batch, although the domain stays


def test_correlated_keeps_the_marginals(digits: Digits) -> None:
    labels = digits.labels[correlated(digits, corruptions=["brightness"]).plan.picks(0, 898).samples]
    assert np.array_equal(np.bincount(labels), np.bincount(digits.labels))
    assert np.mean(labels[1:] == labels[:-1]) > 0.8


def test_far_out_picks_of_an_endless_plan_draw_only_their_own_blocks(
    digits: Digits, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = 10**9
    plan = correlated(digits, corruptions=NAMES, cycles=None).plan
    assert plan.length is None
    drawn = []
    arrange = Correlated.arrange
    monkeypatch.setattr(Correlated, "arrange", lambda *given: drawn.append(1) or arrange(*given))
    picks = plan.picks(far, far + 2000)
    assert len(drawn) <= 4  # 2000 samples meet at most four blocks of 898
    again = correlated(digits, corruptions=NAMES, cycles=None).plan
    again.picks(5, 7)
    assert same(picks, Picks(*(np.concatenate(pair) for pair in zip(*_halves(again, far), strict=True))))
    assert not np.array_equal(picks.samples[:898], plan.picks(far + 3 * 898, far + 4 * 898).samples)


def _halves(plan: Plan, start: int) -> list[list[np.ndarray]]:
    return [list(vars(plan.picks(*span)).values()) for span in ((start, start + 999), (start + 999, start + 2000))]


def test_positions_outside_are_refused() -> None:
    plan = continual(SMALL, corruptions=["brightness"]).plan
    for start, stop in ((-1, 4), (5, 4), (0, 24)):
        with pytest.raises(ValueError, match="at most 23"):
            plan.picks(start, stop)
    assert len(plan.picks(23, 23)) == 0


def test_shuffled_steps_are_the_seeds_own_and_the_protocol_stays_the_same(digits: Digits) -> None:
    names = ["brightness", "contrast", "pixelate", "clean"]
    streams = [
        continual(digits, corruptions=names, samples_per_domain=10, shuffle_steps=True, seed=s) for s in range(4)
    ]
    orders = {tuple(stream.plan.picks(0, 40).domains[::10]) for stream in streams}
    assert len(orders) > 1
    assert all(sorted(order) == [0, 1, 2, 3] for order in orders)
    assert len({stream.protocol for stream in streams}) == 1
    assert streams[0].protocol != continual(digits, corruptions=names, samples_per_domain=10).protocol


def test_a_shuffled_step_stays_in_one_piece(digits: Digits) -> None:
    stream = continual(digits, corruptions=["contrast", "clean"], samples_per_domain=2000, shuffle_steps=True, seed=3)
    domains = stream.plan.picks(0, 4000).domains
    assert np.count_nonzero(np.diff(domains)) == 1
