"""The public names of `holdfast` exist, and importing it does not load torch."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest

import holdfast


def test_every_public_name_is_there() -> None:
    assert dir(holdfast) == holdfast.__all__
    for name in holdfast.__all__:
        assert getattr(holdfast, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'adopt'"):
        holdfast.adopt  # noqa: B018


@pytest.mark.parametrize("room", [module.name for module in pkgutil.walk_packages(holdfast.__path__, "holdfast.")])
def test_every_module_says_what_it_offers(room: str) -> None:
    if room.endswith("__main__"):
        return
    module = importlib.import_module(room)
    assert module.__doc__, f"{room} has no docstring"
    offered = {*getattr(module, "__all__", ())} | {name for name in vars(module) if not name.startswith("_")}
    for name in offered:
        thing = getattr(module, name)
        if (inspect.isclass(thing) or inspect.isfunction(thing)) and thing.__module__.startswith("holdfast."):
            assert thing.__doc__, f"{room}.{name} has no docstring"


def test_importing_the_package_and_the_report_does_not_load_torch() -> None:
    code = "import sys, holdfast, holdfast.report; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_rooms_are_there_without_a_further_import() -> None:
    code = "import holdfast; assert 'continual' in holdfast.streams.STREAMS; holdfast.list_methods()"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
