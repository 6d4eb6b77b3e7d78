"""Registries: names, aliases, and entries that are found because their file lies in the folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import holdfast
from holdfast.audio import CLIPS, FULL_NAMES
from holdfast.corruptions.audio.criteria import criterion_corruption
from holdfast.corruptions.audio.dhauds import criteria, criterion
from holdfast.data import DATASETS
from holdfast.models.amaut import amaut
from holdfast.registry import Registry, UnknownNameError
from holdfast.training import PROCEDURES, procedure_of

# A file that a contributor adds to a room, and the registry in which its entry appears.
DROPPED = {
    "corruptions/image": (
        "from holdfast.corruptions.base import corruption\n"
        "@corruption('dropped_image', {family: range(6) for family in ('32', '64', '224')})\n"
        "def dropped(images, level):\n    '''Leave images alone.'''\n    return images\n",
        "from holdfast.corruptions import CORRUPTIONS as found",
    ),
    "corruptions/audio": (
        "from holdfast.corruptions.audio.base import audio_corruption\n"
        "@audio_corruption('dropped_audio', range(6))\n"
        "def dropped(waveforms, level):\n    '''Leave audio alone.'''\n    return waveforms\n",
        "from holdfast.corruptions import CORRUPTIONS as found",
    ),
    "data": (
        "from holdfast.data.base import DATASETS, InMemoryImages\n"
        "@DATASETS.register('dropped_data')\n"
        "class Dropped(InMemoryImages):\n    '''No data.'''\n",
        "from holdfast.data import DATASETS as found",
    ),
    "models": (
        "from torch import nn\nfrom holdfast.models.base import MODELS\n"
        "@MODELS.register('dropped_model')\n"
        "def dropped() -> nn.Module:\n    '''No network.'''\n    return nn.Identity()\n",
        "from holdfast.models import MODELS as found",
    ),
    "methods": (
        "from holdfast.methods import METHODS, Method\n"
        "@METHODS.register('dropped_methods')\n"
        "class Dropped(Method):\n    '''No method.'''\n",
        "from holdfast.methods import METHODS as found",
    ),
    "estimators": (
        "from holdfast.estimators import ESTIMATORS, Estimator\n"
        "@ESTIMATORS.register('dropped_estimators')\n"
        "class Dropped(Estimator):\n    '''No estimator.'''\n",
        "from holdfast.estimators import ESTIMATORS as found",
    ),
    "recovery": (
        "from holdfast.recovery import RECOVERIES, Recovery\n"
        "@RECOVERIES.register('dropped_recovery')\n"
        "class Dropped(Recovery):\n    '''No recovery.'''\n",
        "from holdfast.recovery import RECOVERIES as found",
    ),
}


@pytest.mark.slow
def test_a_file_dropped_into_a_room_is_found(tmp_path: Path) -> None:
    package = tmp_path / "holdfast"
    shutil.copytree(Path(holdfast.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__", "weights"))
    checks = []
    for room, (text, registry) in DROPPED.items():
        (package / room / "zz_dropped.py").write_text(f'"""Dropped."""\n{text}')
        name = f"dropped_{Path(room).name}".replace("models", "model")
        checks.append(f"{registry}\nassert {name!r} in found.names(), '{room}/__init__.py: call import_entries'")
    code = "\n".join(checks)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_alias_finds_the_entry_and_is_not_listed() -> None:
    registry: Registry[type] = Registry("thing", "things")
    registry.register("whole", alias="int")(int)
    assert registry.names() == ["whole"]
    assert registry["int"] is registry["whole"] is int
    assert "int" in registry
    assert registry.name_of(int) == "whole"
    assert len(registry) == 1


@pytest.mark.parametrize(("name", "alias"), [("whole", None), ("other", "whole"), ("int", None), ("other", "int")])
def test_names_and_aliases_are_taken_once(name: str, alias: str | None) -> None:
    registry: Registry[type] = Registry("thing", "things")
    registry.register("whole", alias="int")(int)
    with pytest.raises(ValueError, match="is registered already"):
        registry.register(name, alias=alias)(str)


def test_a_misspelt_alias_is_recognised() -> None:
    registry: Registry[type] = Registry("thing", "things")
    registry.register("something_long", alias="us8")(int)
    with pytest.raises(UnknownNameError, match="did you mean 'us8'"):
        registry["us9"]


def test_an_entry_point_that_names_a_module_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint("mine", "json", "holdfast.methods"), EntryPoint("yours", "json:dumps", "holdfast.methods")]
    monkeypatch.setattr("holdfast.registry.metadata.entry_points", lambda **_: points)
    registry: Registry[object] = Registry("method", "methods")
    words = "the entry point 'mine' of holdfast.methods names the module 'json'; name the method in it, 'json:…'"
    with pytest.warns(UserWarning, match=words):
        assert registry.names() == ["yours"]
    assert "mine" not in registry
    with pytest.raises(UnknownNameError, match=words):
        registry["mine"]


@pytest.mark.parametrize("short", CLIPS)
def test_data_sets_of_dhauds_have_full_names_too(short: str) -> None:
    full = FULL_NAMES[short]
    assert DATASETS[short] is DATASETS[full]
    assert full in DATASETS.names()
    assert short not in DATASETS.names()
    assert PROCEDURES[f"amaut-{short}"] is PROCEDURES[f"amaut-{full}"]
    assert procedure_of(f"amaut-{full}").epochs == procedure_of(f"amaut-{short}").epochs
    assert criteria(full) == criteria(short)
    assert criterion("WHN-L1", full).dataset == short  # generators are seeded by the short name
    assert criterion_corruption("WHN-L1", full).name == f"dhauds/{short}/WHN-L1"


def test_versions_of_networks_have_full_names_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.models import amaut as module

    built: list[object] = []
    monkeypatch.setattr(sys.modules[module.__module__], "AMAuT", lambda version: built.append(version) or _Network())
    amaut(version="vs"), amaut(version="vocalsound")
    assert built[0] is built[1]


class _Network:
    def eval(self) -> _Network:
        return self
