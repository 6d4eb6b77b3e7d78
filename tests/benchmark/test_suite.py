"""Suites: mistakes are reported before anything runs, with their line and the nearest valid word."""

from __future__ import annotations

import pytest

from holdfast.benchmark import SuiteError, load_suite, suite_names
from holdfast.benchmark.job import SourceData
from holdfast.benchmark.suite import parse_suite
from holdfast.options.plain_jobs import plain_jobs
from holdfast.options.spec import Spec
from holdfast.options.yaml_text import load_yaml

GOOD = """\
name: small
models: [digits_resnet]
seeds: [0, 1]
source: {name: digits, split: train, samples: 64}
streams:
  - name: continual
    data: {name: digits, split: test}
    corruptions: [gaussian_noise, contrast]
    samples_per_domain: 64
recipes:
  - source
  - {name: tent, label: slow tent, lr: 1.0e-4}
  - {name: rdumb, every_batches: 3}
  - eata
"""


def test_jobs_are_the_product_of_models_streams_seeds_and_recipes() -> None:
    jobs = parse_suite(GOOD).jobs()
    assert len(jobs) == 8
    assert len({job.name for job in jobs}) == 8
    assert [job.index for job in jobs] == list(range(8))


def test_a_stream_may_have_a_batch_size_and_recipes_of_its_own() -> None:
    own = GOOD.replace(
        "    samples_per_domain: 64", "    samples_per_domain: 64\n    batch_size: 8\n    recipes: [source]"
    )
    (job, _) = parse_suite(own).jobs()
    assert (job.batch_size, job.recipe.name) == (8, "source")
    assert not {"batch_size", "recipes"} & set(job.stream.options)
    of_model = own.replace("[digits_resnet]", "[{name: digits_resnet, batch_size: 4}]")
    for text, batch_size in ((of_model, 8), (of_model.replace("    batch_size: 8\n", ""), 4)):
        assert [job.batch_size for job in parse_suite(text).jobs()] == [batch_size] * 2
        assert [job["batch_size"] for job in plain_jobs(load_yaml(text))] == [batch_size] * 2
    with pytest.raises(SuiteError, match="did you mean 'source'"):
        parse_suite(own.replace("[source]", "[soruce]"))


def test_a_job_is_named_by_its_content() -> None:
    first = parse_suite(GOOD).jobs()
    again = parse_suite(GOOD.replace("name: small", "name: other")).jobs()
    changed = parse_suite(GOOD.replace("1.0e-4", "1.0e-3")).jobs()
    assert [job.name for job in first] == [job.name for job in again]
    assert [a.name == b.name for a, b in zip(first, changed, strict=True)] == [True, False, True, True] * 2


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("- source", "- soruce", 11, "did you mean 'source'"),
        ("lr: 1.0e-4", "leaning_rate: 1", 12, "no option 'leaning_rate'"),
        ("lr: 1.0e-4", "lr: fast", 12, "lr of method 'tent' must be a number of at least 0, got 'fast'"),
        ("lr: 1.0e-4", "optimizer: sgdd", 12, "optimizer of method 'tent' must be 'sgd' or 'adam', got 'sgdd'"),
        ("every_batches: 3", "every_batches: often", 13, "every_batches of recovery 'periodic' must be a whole number"),
        ("samples_per_domain: 64", "samples_per_domain: many", 9, "samples_per_domain of stream 'continual' must be a"),
        (
            "samples_per_domain: 64",
            "samples_per_domain: 99999999999999999999",
            9,
            "must be a whole number from 1 to 1,000",
        ),
        (
            "samples_per_domain: 64",
            "severity: 9",
            9,
            "severity of stream 'continual' must be a number from 0 to 5, got 9",
        ),
        ("lr: 1.0e-4", "lr: .nan", 12, "lr of method 'tent' must be a finite number of at least 0, got nan"),
        ("- eata", "- {name: guard, base: tent, base_options: {lrr: 1}}", 14, "method 'tent' has no option 'lrr'; did"),
        ("- eata", "- {name: guard, base: tnet}", 14, "unknown method 'tnet'; did you mean 'tent'"),
        ("every_batches", "every_batch", 13, "did you mean 'every_batches'"),
        ("contrast]", "contrst]", 8, "did you mean 'contrast'"),
        ("name: continual", "name: continous", 6, "did you mean 'continual'"),
        ("samples_per_domain", "samples_per_domian", 9, "did you mean 'samples_per_domain'"),
        ("[digits_resnet]", "[digits_resnt]", 2, "did you mean 'digits_resnet'"),
        ("{name: digits, split: test}", "{name: digit}", 7, "did you mean 'digits'"),
        ("seeds: [0, 1]", "seed: [0, 1]", 3, "did you mean 'seeds'"),
        ("seeds: [0, 1]", "seeds: [zero]", 3, "seeds.0"),
        ("seeds: [0, 1]", "batch_size: 0", 3, "batch_size"),
        ("source: {name: digits, split: train, samples: 64}\n", "", 13, "needs unlabelled source inputs"),
        ("seeds: [0, 1]", "seeds: [0, 1", 4, "not YAML"),
        ("{name: digits, split: test}", "image_folder", 7, "needs folder"),
        ("    corruptions: [gaussian_noise, contrast]\n", "", 6, "needs corruptions"),
        ("samples_per_domain: 64", "collapse: {from_sampel: 64}", 9, "did you mean 'from_sample'"),
        ("samples_per_domain: 64", "collapse: {from_sample: 1, samples: 1, lr_factor: 1}", 9, "greater than 1"),
    ],
)
def test_a_mistake_is_reported_with_its_line(old: str, new: str, line: int, words: str) -> None:
    with pytest.raises(SuiteError, match=words) as caught:
        parse_suite(GOOD.replace(old, new), "small.yaml")
    assert f"small.yaml, line {line}:" in str(caught.value)


WATCHED = GOOD.replace("  - eata\n", "  - {name: tent, label: watched, recovery: estimate_drop, estimate: aetta}\n") + (
    "estimators: [aetta, source_validation]\nholdout: {name: digits, split: validation, samples: 32}\n"
)


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("holdout: {name: digits, split: validation, samples: 32}\n", "", 15, "'source_validation' needs held-out"),
        ("split: validation", "split: test", 16, "the samples of the stream"),
        (", split: validation", "", 16, "the samples of the stream"),  # the default of the data set
        ("name: digits, split: validation", "name: digit", 16, "did you mean 'digits'"),
        ("[aetta, ", "[{name: aetta, masks: 0}, ", 15, "masks of estimator 'aetta' must be a whole number from 1 to"),
        ("[aetta, ", "[aetta, {name: aetta, rate: 0.1}, ", 15, "two estimators 'aetta'"),
        ("[aetta, ", "[aetta, {name: aetta, label: at 0.1, rate: 0.1}, ", 15, "without full stops"),
        ("estimate: aetta", "estimate: aeta", 14, "did you mean 'aetta'"),
        ("estimate: aetta", "window: 0", 14, "window of recovery 'estimate_drop' must be a whole number from 1 to"),
    ],
)
def test_held_out_data_are_checked_before_anything_is_run(old: str, new: str, line: int, words: str) -> None:
    holdout = parse_suite(WATCHED).jobs()[0].holdout
    assert holdout == SourceData(spec=Spec("digits", options={"split": "validation"}), samples=32)
    with pytest.raises(SuiteError, match=words) as caught:
        parse_suite(WATCHED.replace(old, new), "small.yaml")
    assert f"small.yaml, line {line}:" in str(caught.value)


def test_a_recovery_reads_an_estimator_by_its_label() -> None:
    text = WATCHED.replace("estimate: aetta", "estimate: mild").replace("[aetta, ", "[{name: aetta, label: mild}, ")
    assert [estimator.label for estimator in parse_suite(text).jobs()[0].estimators] == ["mild", "source_validation"]


def test_an_estimator_that_a_recovery_reads_needs_its_data_too() -> None:
    text = GOOD.replace("lr: 1.0e-4", "recovery: estimate_drop, estimate: source_validation")
    with pytest.raises(SuiteError, match="line 12: 'source_validation' needs held-out"):
        parse_suite(text)


def test_overrides_set_dotted_keys() -> None:
    suite = parse_suite(GOOD, overrides={"streams.0.samples_per_domain": 8, "batch_size": 4, "recipes": ["source"]})
    assert suite.streams[0].spec.options["samples_per_domain"] == 8
    assert (suite.batch_size, len(suite.recipes)) == (4, 1)
    with pytest.raises(SuiteError, match="no such key"):
        parse_suite(GOOD, overrides={"streams.3.severity": 1})


@pytest.mark.parametrize("name", suite_names())
def test_every_shipped_suite_is_valid(name: str) -> None:
    suite = load_suite(name)
    assert suite.summary
    assert suite.recipes[0].name == "source"


def test_an_unknown_suite_is_reported_with_the_nearest_name() -> None:
    with pytest.raises(SuiteError, match="did you mean 'demo'"):
        load_suite("dmeo")
    with pytest.raises(SuiteError, match="no suite file"):
        load_suite("absent.yaml")


def test_a_scale_is_a_set_of_overrides_and_a_star_sets_every_entry() -> None:
    text = GOOD + "scales:\n  smoke: {seeds: [0], streams.*.samples_per_domain: 8}\n"
    suite = parse_suite(text, scale="smoke")
    assert (len(suite.jobs()), suite.streams[0].spec.options["samples_per_domain"]) == (4, 8)
    assert parse_suite(text, overrides={"seeds": [5]}, scale="smoke").seeds == [5]
    assert len(parse_suite(text).jobs()) == 8
    with pytest.raises(SuiteError, match="did you mean 'smoke'"):
        parse_suite(text, scale="smok")
