"""Temperatures from labels and from a known accuracy calibrate the mean confidence, and say by how much it is off."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast.evidence import (
    Temperature,
    temperature_doubt,
    temperature_from_accuracy,
    temperature_from_agreement,
    temperature_from_labels,
)


def labelled(samples: int, temperature: float, seed: int = 0, gap: float = 3.0) -> tuple[np.ndarray, np.ndarray]:
    """Return logits of ten classes and labels that are drawn from the probabilities at a temperature."""
    rng = np.random.default_rng(seed)
    logits = gap * rng.normal(size=(samples, 10))
    probabilities = np.exp(logits / temperature)
    probabilities /= probabilities.sum(1, keepdims=True)
    return logits, (probabilities.cumsum(1) < rng.random((samples, 1))).sum(1)


def confidence(logits: np.ndarray, scale: Temperature) -> float:
    probabilities = np.exp((logits - logits.max(1, keepdims=True)) / scale.temperature)
    return float((1 / probabilities.sum(1)).mean())


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_labels_and_the_accuracy_find_the_temperature(temperature: float) -> None:
    logits, labels = labelled(3000, temperature)
    accuracy = float((logits.argmax(1) == labels).mean())
    assert temperature_from_labels(logits, labels).temperature == pytest.approx(temperature, rel=0.1)
    known = temperature_from_accuracy(logits, accuracy)
    assert known.temperature == pytest.approx(temperature, rel=0.1)
    assert confidence(logits, known) == pytest.approx(accuracy, abs=1e-6)


def test_the_accuracy_of_another_view_says_less_than_labels_and_less_the_more_they_differ() -> None:
    logits, labels = labelled(256, 2.0)
    accuracy = float((logits.argmax(1) == labels).mean())
    other = logits.copy()
    other[:64] = np.roll(other[:64], 1, axis=1)
    same, different = (temperature_from_accuracy(logits, accuracy, source=view) for view in (logits, other))
    assert temperature_from_labels(logits, labels).error < same.error < different.error
    assert confidence(logits, same) == pytest.approx(accuracy)
    assert confidence(logits, different) == pytest.approx(accuracy - 0.075)  # 30 % of the quarter that differs
    with pytest.raises(ValueError, match="the same samples and classes"):
        temperature_from_accuracy(logits, accuracy, source=other[:5])


def test_the_stated_error_is_that_of_new_samples() -> None:
    new, new_labels = labelled(20_000, 2.0, seed=99)
    accuracy, ratios = (new.argmax(1) == new_labels).mean(), []
    for seed in range(20):
        scale = temperature_from_labels(*labelled(60, 2.0, seed))
        ratios.append((confidence(new, scale) - accuracy) / scale.error)
    assert np.mean(np.abs(ratios) < 1.645) >= 0.85
    assert np.sqrt(np.mean(np.square(ratios))) > 0.3  # not honest by being far too wide


def test_more_labels_leave_less_error() -> None:
    few, many = (temperature_from_labels(*labelled(samples, 2.0)).error for samples in (50, 1000))
    assert many < few / 2


def test_labels_without_an_error_do_not_mean_certainty() -> None:
    logits = 3 * np.random.default_rng(0).normal(size=(60, 10))
    scale = temperature_from_labels(logits, logits.argmax(1))
    assert scale.temperature > 0.1  # the smallest that is tried is 0.05
    assert confidence(logits, scale) < 1
    assert scale.error > 0.01


def test_a_network_that_is_badly_calibrated_in_parts_has_a_larger_error() -> None:
    # Sure and wrong on a tenth of the samples: no temperature mends that, and folds differ.
    logits, labels = labelled(200, 1.0, gap=8.0)
    wrong = np.where(np.arange(200) % 10 == 0, (logits.argmax(1) + 1) % 10, labels)
    assert temperature_from_labels(logits, wrong).error > temperature_from_labels(logits, labels).error


def test_agreement_is_a_rough_substitute_for_accuracy_and_unknown_when_nothing_differs() -> None:
    logits, labels = labelled(2000, 2.0)
    other = 1.05 * logits
    changed = np.flatnonzero(logits.argmax(1) != labels)[4:]  # errors of the two views mostly coincide in place
    other[changed, labels[changed]] = 50.0
    agreed = temperature_from_agreement(logits, other)
    assert agreed is not None
    assert abs(confidence(logits, agreed) - (logits.argmax(1) == labels).mean()) < 1.645 * agreed.error
    assert temperature_from_agreement(logits, 2 * logits) is None
    assert temperature_from_agreement(logits, -logits) is None  # worse than chance
    with pytest.raises(ValueError, match="the same samples and classes"):
        temperature_from_agreement(logits, other[:5])


def test_logits_so_flat_that_no_temperature_fits_them_have_no_known_scale() -> None:
    logits, _ = labelled(48, 2.0)
    other = logits.copy()
    other[:4] = np.roll(other[:4], 1, axis=1)
    assert temperature_from_agreement(logits, other) is not None
    assert temperature_from_agreement(1e-4 * logits, 1e-4 * other) is None


def test_a_temperature_far_from_the_agreement_of_two_views_is_doubted() -> None:
    logits, labels = labelled(2000, 2.0)
    other = np.where((logits.argmax(1) == labels)[:, None], logits, -logits)
    assert temperature_doubt(logits, other, 2.0) is None  # confidence equals agreement
    for wrong in (0.3, 8.0):
        doubt = temperature_doubt(logits, other, wrong)
        assert doubt is not None
        assert f"at temperature {wrong:g}" in doubt
    with pytest.raises(ValueError, match="temperature must be positive"):
        temperature_doubt(logits, other, 0.0)


def test_wrong_values_are_refused() -> None:
    logits = np.eye(3)
    for call, match in (
        (lambda: temperature_from_labels(logits, [0, 1]), "one label for each row"),
        (lambda: temperature_from_labels(logits, [0, 1, 3]), "labels must be between 0 and 2"),
        (lambda: temperature_from_labels(logits[0], [0]), r"logits must be \(samples, classes\)"),
        (lambda: temperature_from_labels(np.full((2, 2), np.nan), [0, 1]), "logits must be finite"),
        (lambda: temperature_from_accuracy(logits, 76), "a share, not percent"),
        (lambda: temperature_from_accuracy(logits, 0.2), "between chance, 0.333"),
        (lambda: temperature_from_accuracy(np.zeros((4, 3)), 0.8), "no temperature between"),
    ):
        with pytest.raises(ValueError, match=match):
            call()


def test_former_names_work_with_a_warning_until_they_go() -> None:
    from holdfast import evidence

    with pytest.warns(DeprecationWarning, match=r"scale_from_labels is called temperature_from_labels now"):
        assert evidence.scale_from_labels is evidence.temperature_from_labels
    with pytest.raises(AttributeError, match="scale_from_nothing"):
        _ = evidence.scale_from_nothing
