"""The registry of streams: typed metadata, options through `extends`, plug-ins, and one file for each entry."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

import holdfast.streams
from holdfast.benchmark.executors import EXECUTORS
from holdfast.blocks.views import VIEWS
from holdfast.corruptions import CORRUPTIONS
from holdfast.data import DATASETS, Dataset, InMemoryImages
from holdfast.estimators import ESTIMATORS
from holdfast.methods import METHODS
from holdfast.models import MODELS
from holdfast.recovery import RECOVERIES
from holdfast.registry import Registry, options_of
from holdfast.streams import ORDERS, STREAMS, Stream, StreamBuilder, continual
from holdfast.streams.builder import StreamRegistry

CATALOGUE = Path(holdfast.streams.__file__).parent / "catalogue"


@pytest.mark.parametrize("name", sorted(file.stem for file in CATALOGUE.glob("[!_]*.py")))
def test_every_file_of_the_catalogue_registers_the_stream_of_its_name(name: str) -> None:
    assert name in STREAMS, f"register the stream {name!r} in holdfast/streams/catalogue/{name}.py"
    assert STREAMS[name].build.__module__ == f"holdfast.streams.catalogue.{name}"
    assert name in holdfast.streams.__all__, f"export {name!r} in holdfast/streams/__init__.py"


def test_all_public_names_exist() -> None:
    assert all(hasattr(holdfast.streams, name) for name in holdfast.streams.__all__)


@pytest.mark.parametrize("name", list(STREAMS))
def test_every_stream_says_what_it_is_and_whom_to_cite(name: str) -> None:
    entry = next(entry for entry in STREAMS.entries() if entry.name == name)
    assert entry.summary.endswith(".")
    assert entry.citation == STREAMS[name].citation != ""
    assert "seed" in options_of(STREAMS[name]), f"{name} takes no seed"
    assert STREAMS[name].needs_model == ("calibrate" in options_of(STREAMS[name]))


def test_options_are_those_of_the_stream_and_of_all_that_it_extends() -> None:
    assert {"corruptions", "severity", "samples_per_domain", "draws"} <= {*options_of(STREAMS["correlated"])}
    assert {"setting", "classes", "exhaust", "storage_jpeg_quality"} <= {*options_of(STREAMS["unitta"])}
    assert {"transitions", "calibration", "images_per_step"} <= {*options_of(STREAMS["cross"])}
    assert "severity" not in options_of(STREAMS["gradual"])


def plain(data: Dataset, *, corruptions: list[str], seed: int = 0) -> Stream:
    """A third-party stream."""
    return continual(data, corruptions=corruptions, seed=seed)


def test_functions_of_third_parties_become_entries(few: InMemoryImages, monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint("theirs", f"{__name__}:plain", "holdfast.streams")]
    monkeypatch.setattr("holdfast.registry.metadata.entry_points", lambda **_: points)
    monkeypatch.setattr(EntryPoint, "load", lambda _: plain)
    registry = StreamRegistry("stream", "streams")
    assert inspect.unwrap(registry.register("ours")(plain)) is plain
    assert registry["ours"] == registry["theirs"] == StreamBuilder(plain)
    assert [entry.summary for entry in registry.entries()] == ["A third-party stream."] * 2
    assert list(options_of(registry["theirs"])) == ["corruptions", "seed"]
    expected = continual(few, corruptions=["clean"], seed=3).fingerprint
    assert registry["theirs"](few, corruptions=["clean"], seed=3).fingerprint == expected
    with pytest.raises(ValueError, match="'ours' is registered already"):
        registry.register("ours")(continual)


ROOMS: dict[str, Registry[Any]] = {
    "benchmark": EXECUTORS,
    "blocks": VIEWS,
    "data": DATASETS,
    "estimators": ESTIMATORS,
    "methods": METHODS,
    "models": MODELS,
    "recovery": RECOVERIES,
}


@pytest.mark.parametrize("room", ROOMS)
def test_entries_are_registered_by_their_own_room(room: str) -> None:
    """Importing a room is enough to know all of its names."""
    elsewhere = [name for name in ROOMS[room] if not ROOMS[room][name].__module__.startswith(f"holdfast.{room}.")]
    assert not elsewhere
    assert all(type(CORRUPTIONS[name]).__module__.startswith("holdfast.corruptions.") for name in CORRUPTIONS)
    assert all(ORDERS[name].__module__.startswith("holdfast.streams.") for name in ORDERS)


def test_shards_are_known_as_data_before_any_stream_is_imported() -> None:
    program = (
        "import sys; from holdfast.data import DATASETS as d; d['ccc_shards']; print('holdfast.streams' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "False"
