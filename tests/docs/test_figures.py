"""Figures say what they show in words, are used, and are drawn from what they are given."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
pytestmark = pytest.mark.skipif(not DOCS.exists(), reason="the documents are not beside the tests")


def script(name: str) -> dict[str, Any]:
    return runpy.run_path(str(DOCS / f"{name}.py"))


@pytest.mark.parametrize("figure", sorted(path.name for path in (DOCS / "figures").glob("*.svg")))
def test_a_figure_is_described_wherever_it_is_shown(figure: str) -> None:
    pages = [path.read_text() for path in (DOCS.parent / "README.md", *DOCS.rglob("*.md"))]
    shown = [text for page in pages for text in re.findall(rf"!\[([^\]]*)\]\([^)]*figures/{figure}\)", page)]
    assert shown
    assert min(len(text.split()) for text in shown) >= 8
    drawn = (DOCS / "figures" / figure).read_text()
    assert re.search(r"<title>.{40,}</title>", drawn)
    missing = [part for part in ("prefers-color-scheme:dark", 'viewBox="0 0 420', "font:12px") if part not in drawn]
    assert missing == []


def test_the_site_has_the_colours_of_the_figures() -> None:
    drawing, style = script("drawing"), (DOCS / "site.css").read_text()
    for scheme, colours in (("default", drawing["LIGHT"]), ("slate", drawing["DARK"])):
        (rule,) = re.findall(rf'\[data-md-color-scheme="{scheme}"\] svg\.figure {{(.*?)}}', style)
        assert dict(re.findall(r"--figure-(\w+): (#\w+);", rule)) == colours


def test_dots_below_a_value_are_apart_and_none_is_lost() -> None:
    good, bad = script("figures")["swarm"]([-3.0, 0.0, 0.0, 0.0, 2.0], lambda value: 100 + value, 50.0, -0.5)
    assert [x for x, _ in bad] == [97.0]
    assert sorted(x for x, _ in good) == [100.0, 100.0, 100.0, 102.0]
    assert len(set(good)) == 4


def test_the_claim_counts_streams_and_names_the_exceptions() -> None:
    made = script("promise_table")

    def row(stream: str, source: float, gain: float) -> dict[str, Any]:
        return {"subject": "net", "stream": stream, "source": source, "gains": {"blend": gain}}

    kept = [row("a, i.i.d.", 90, 2), row("b, i.i.d.", 80, 0.2), row("c, i.i.d.", 20, -4)]
    made["claim"].__globals__["rows"] = lambda: kept
    text = made["claim"]()
    assert "on 1 of 3 streams of 1 networks, within half a point on 1, and less accurate on 1" in text
    assert "net: c (by up to 4.0 points; the network alone is right on 20 %)" in text
    assert "it never lost half a point" in text
    kept.append(row("d, i.i.d.", 70, -1))
    assert "it never lost half a point" not in made["claim"]()
