from __future__ import annotations

import pytest

from holdfast.data import InMemoryImages
from holdfast.records import Domain
from holdfast.registry import UnknownNameError, options_of
from holdfast.streams import ORDERS, STREAMS, continual, gradual, mixed_domains


@pytest.mark.parametrize("order", list(ORDERS))
@pytest.mark.parametrize("name", [name for name in STREAMS if {"order", "corruptions"} <= {*options_of(STREAMS[name])}])
def test_every_setting_takes_every_order(few: InMemoryImages, name: str, order: str) -> None:
    stream = STREAMS[name](few, corruptions=["brightness", "clean"], samples_per_domain=3, order=order)
    batches = list(stream.starting_at(0, batch_size=4))
    assert sum(map(len, batches)) == stream.length == (2 * 9 * 3 if name == "gradual" else 2 * 3)


def test_unknown_names_are_answered_with_the_nearest(few: InMemoryImages) -> None:
    with pytest.raises(UnknownNameError, match="unknown stream 'continal'; did you mean 'continual'"):
        STREAMS["continal"]
    with pytest.raises(UnknownNameError, match="unknown corruption 'gausian_noise'; did you mean 'gaussian_noise'"):
        continual(few, corruptions=["brightness", "gausian_noise"])
    with pytest.raises(UnknownNameError, match="unknown corruption 'contrst'; did you mean 'contrast'"):
        mixed_domains(few, corruptions=["brightness+contrst"])
    with pytest.raises(UnknownNameError, match="did you mean 'clean'"):
        gradual(few, corruptions=["claen"])
    with pytest.raises(UnknownNameError, match="did you mean 'brightness'"):
        continual(few, corruptions=[Domain("dusk", ("brightnes",))])
    with pytest.raises(UnknownNameError, match="did you mean 'sorted'"):
        continual(few, corruptions=["brightness"], order="sort")
    with pytest.raises(UnknownNameError, match="did you mean 'concentration'"):
        STREAMS["correlated"](few, corruptions=["clean"], concentraton=3)


def test_an_option_without_effect_is_refused(few: InMemoryImages) -> None:
    with pytest.raises(UnknownNameError, match=r"^order 'shuffled' has no option 'concentration'"):
        continual(few, corruptions=["brightness"], concentration=0.1)


def test_domains_may_have_names_of_their_own(few: InMemoryImages) -> None:
    dusk = Domain("dusk", ("brightness", "contrast"))
    stream = continual(few, corruptions=[dusk, "clean"], samples_per_domain=2)
    assert [batch.domains for batch in stream] == [("dusk", "dusk"), ("clean", "clean")]
    spelt = continual(few, corruptions=["brightness+contrast"], samples_per_domain=2)
    assert stream.first(2).equal(spelt.first(2))


def test_a_short_name_is_the_same_stream(few: InMemoryImages) -> None:
    short, full = (continual(few, corruptions=[name, "clean"]) for name in ("jpeg", "jpeg_compression"))
    assert short.domains == full.domains == ("jpeg_compression", "clean")
    assert short.fingerprint == full.fingerprint


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"corruptions": []}, "pass at least one corruption"),
        ({"corruptions": "brightness"}, r"must be a list \(text or Domain\), got 'brightness'; write \['brightness'\]"),
        ({"severity": 6}, "severity of stream 'continual' must be a number from 0 to 5, got 6"),
        ({"samples_per_domain": 0}, "samples_per_domain of stream 'continual' must be a whole number from 1 to"),
        ({"samples_per_domain": 10**20}, "must be a whole number from 1 to 1,000,000,000 or nothing, got 1000"),
        ({"samples_per_domain": 10**9}, "takes 20000000 passes .* repeat the steps with cycles instead"),
        ({"cycles": 0}, "cycles of stream 'continual' must be a whole number from 1 to"),
    ],
)
def test_impossible_streams_are_refused_at_once(few: InMemoryImages, options: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        continual(few, **{"corruptions": ["brightness"], **options})  # type: ignore[arg-type]


def test_only_images_and_audio_are_rendered(few: InMemoryImages) -> None:
    table = InMemoryImages(few.images, few.labels, name="prices")
    table.input_spec = type(table.input_spec)("other", (7,))
    with pytest.raises(ValueError, match="images and audio only, and prices holds neither"):
        continual(table, corruptions=["clean"])


def test_unknown_options_of_streams_in_steps_are_explained(few: InMemoryImages) -> None:
    for build in (continual, gradual, mixed_domains):
        elsewhere = rf"^stream '{build.__name__}' has no option 'batch_size'; pass it to starting_at\(batch_size=…\)"
        with pytest.raises(UnknownNameError, match=elsewhere):
            build(few, corruptions=["clean"], batch_size=64)
        with pytest.raises(UnknownNameError, match=elsewhere):  # whatever else is missing
            build(few, batch_size=64)
        with pytest.raises(UnknownNameError, match="no option 'sample_per_domain'; did you mean 'samples_per_domain'"):
            build(few, corruptions=["clean"], sample_per_domain=3)
    with pytest.raises(UnknownNameError, match="stream 'continual' has no option 'severty'; did you mean 'severity'"):
        continual(few, corruptions=["clean"], severty=3)
