"""The pages of the methods are up to date with their classes."""

from __future__ import annotations

import inspect
import re
import runpy
from math import prod
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from holdfast.benchmark import load_suite
from holdfast.commands.description import describe, list_methods
from holdfast.methods import METHODS
from holdfast.model.adapt import adapt

BUILD = Path(__file__).resolve().parents[2] / "docs" / "build.py"
pytestmark = pytest.mark.skipif(not BUILD.exists(), reason="the documents are not beside the tests")


def test_the_image_of_the_readme_shows_the_demo_of_this_commit() -> None:
    with Image.open(BUILD.with_name("demo.png")) as image:
        drawn = image.info.get("suites")
    now = runpy.run_path(str(BUILD.with_name("demo_image.py")))["fingerprint"]()
    assert drawn == now, "run holdfast demo, then python docs/demo_image.py"


def test_the_default_is_said_to_gain_little_where_it_does() -> None:
    curves = runpy.run_path(str(BUILD.with_name("curves.py")))["read"]().curves
    shares = {name: f"{100 * curves[name].mean:.1f} %" for name in ("blend", "source", "anchor", "batch_norm")}
    text = (BUILD.parent / "methods/blend.md").read_text()
    (sentence,) = (part for part in text.split(". ") if "predictions keep a part" in " ".join(part.split()))
    assert [share for share in shares.values() if share not in sentence] == []


@pytest.mark.parametrize("page", ["ccc", "unitta"])
def test_the_runs_of_a_suite_are_as_many_as_its_page_says(page: str) -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \|.*\| ([\d ×+]+) \|$", (BUILD.parent / f"{page}.md").read_text(), re.MULTILINE)
    said = {name: sum(prod(map(int, part.split(" × "))) for part in runs.split(" + ")) for name, runs in rows}
    assert said
    assert said == {name: len(load_suite(name).jobs()) for name in said}


def test_no_page_is_left_of_a_method_that_is_gone() -> None:
    pages = runpy.run_path(str(BUILD))["pages"]()
    written = {path.name for path in pages if path.parent.name == "methods"}
    assert {path.name for path in (BUILD.parent / "methods").iterdir()} == written
    curves = list((BUILD.parent / "curves").iterdir())
    assert {path.name for path in curves} == {path.name for path in pages if path.parent.name == "curves"}
    assert max(path.stat().st_size for path in curves) < 6_000


@pytest.mark.parametrize("name", METHODS.names())
def test_every_method_says_when_to_use_it_and_when_it_fails(name: str) -> None:
    kind = METHODS[name]
    texts = {text: getattr(kind, text) for text in ("use_when", "fails_when", "passes", "citation")}
    missing = [text for text, content in texts.items() if not content and (text, name) != ("citation", "source")]
    assert not missing, f"add {', '.join(missing)} to the class {kind.__name__} in {inspect.getsourcefile(kind)}"


@pytest.mark.parametrize("name", list_methods())
def test_every_option_has_a_meaning(name: str) -> None:
    description = describe(name)
    missing = [option.name for option in (*description.options, *description.recovery_options) if not option.meaning]
    assert not missing, f"add to `meanings` in the class of {name!r}: {', '.join(missing)}"
    assert all(f"{option.name}={option.default!r}" in str(description) for option in description.options)


def test_a_recipe_shows_its_own_defaults() -> None:
    values = {option.name: option.default for option in describe("asr_eta").options}
    assert values["nesterov"] is True
    assert describe("rdumb").recovery_options[0].name == "every_batches"


class NoHead(nn.Module):
    """A network that ends in no layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Sequential(nn.Conv2d(4, 4, 1), nn.GroupNorm(2, 4)) for _ in range(2))
        self.weights = nn.Parameter(torch.randn(64, 3))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits."""
        return self.second(self.first(inputs).relu()).flatten(1) @ self.weights


@pytest.mark.parametrize("name", METHODS.names())
def test_what_a_page_says_that_a_method_needs_is_what_it_needs(name: str) -> None:
    inputs = torch.rand(8, 4, 4, 4)
    plain = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    kind = METHODS[name]
    for network, refused in ((plain, kind.needs_norm), (NoHead(), kind.needs_head or kind.needs_batch_norm)):
        source = [inputs] if kind.needs_source else None
        if refused:
            with pytest.raises(ValueError, match=r"normalisation|BatchNorm|head="):
                adapt(network, name, example=inputs, source=source)
        else:
            assert adapt(network, name, example=inputs, source=source).step(inputs).skipped is None
