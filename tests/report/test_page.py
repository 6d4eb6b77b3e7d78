"""The page: its files, escaping, offline policy, sections and charts."""

from __future__ import annotations

import base64
import gzip
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote

import pytest
from plotly.offline import get_plotlyjs
from run_files import WriteRun, batches, estimate

from holdfast.report import make, make_report, report_to_markdown, table_sections, write_report
from holdfast.report.section import chart

EVIL = "<script>alert(1)</script>"


@pytest.fixture
def runs(write_run: WriteRun, tmp_path: Path) -> Path:
    for seed in (0, 1):
        write_run("source", batches({"fog": [5, 6], "snow": [5, 5]}), seed=seed)
        own = {"recovery": "periodic(every_batches=2)", "source_data": EVIL}
        reset = batches({"fog": [8, 8], "snow": [7, 8]}, backwards=1.0, estimates={"aetta": estimate(0.7)})
        reset[1]["recovered"] = EVIL
        write_run(EVIL, reset, seed=seed, protocol=own)
    return tmp_path / "runs"


class Tags(HTMLParser):
    """Every tag with its attributes, the text outside scripts and styles, and the styles."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.styles: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data: str) -> None:
        if self.cdata_elem is None:
            self.text += data
        elif self.cdata_elem == "style":
            self.styles.append(data)


def parsed(page: Path) -> Tags:
    tags = Tags()
    tags.feed(page.read_text(encoding="utf-8"))
    tags.close()
    return tags


def test_page_and_files_beside_it(runs: Path) -> None:
    page = write_report(make_report(runs))
    assert page == runs / "report.html"
    beside = sorted(path.name for path in runs.iterdir() if path.is_file())
    name = "report-continual-digits-resnet"
    assert beside == [f"{name}-estimates.csv", f"{name}.csv", f"{name}.md", f"{name}.tex", "report.html"]
    links = [str(attributes["href"]) for tag, attributes in parsed(page).tags if tag == "a"]
    texts = [unquote(link.partition(",")[2]) for link in links if link.startswith("data:")]
    assert sorted(texts) == sorted((runs / name).read_text() for name in beside if name != "report.html")


def test_out_names_the_page_or_its_folder(runs: Path, tmp_path: Path) -> None:
    assert write_report(make_report(runs), tmp_path / "new" / "page.html").exists()
    assert (tmp_path / "new" / "page-continual-digits-resnet.csv").exists()
    assert write_report(make_report(runs), tmp_path / "new") == tmp_path / "new" / "report.html"


def test_the_same_files_give_the_same_page(runs: Path, tmp_path: Path) -> None:
    first, second = (
        write_report(make_report(runs), tmp_path / subfolder / "report.html") for subfolder in ("first", "second")
    )
    assert first.read_bytes() == second.read_bytes()


def test_nothing_is_requested_from_anywhere(runs: Path) -> None:
    tags = parsed(write_report(make_report(runs)))
    for tag, attributes in tags.tags:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base"), tag
        for name in ("src", "href", "srcset", "data", "action"):
            assert "//" not in (attributes.get(name) or ""), (tag, attributes)
    assert not any("url(" in style or "@import" in style for style in tags.styles)
    policies = [attributes for _, attributes in tags.tags if attributes.get("http-equiv") == "Content-Security-Policy"]
    assert len(policies) == 1
    assert str(policies[0]["content"]).startswith("default-src 'none';")
    assert "http" not in str(policies[0]["content"])


def test_plotly_is_embedded_once_and_without_its_logo(runs: Path, write_run: WriteRun) -> None:
    write_run("tent", batches({"fog": [9]}), stream="short", protocol={"stream": "77"})
    text = write_report(make_report(runs)).read_text(encoding="utf-8")
    (packed,) = re.findall(r"id='plotly'>([^<]+)<", text)
    assert gzip.decompress(base64.b64decode(packed)).decode() == get_plotlyjs()
    assert len(text) < 2_500_000
    assert "displaylogo: false" in text


def test_what_comes_from_files_is_escaped(runs: Path) -> None:
    page = write_report(make_report(runs))
    tags = parsed(page)
    # Plotly, our own script, and the data of seven charts; the label adds none.
    assert sum(tag == "script" for tag, _ in tags.tags) == 9
    assert EVIL not in page.read_text(encoding="utf-8")
    assert f"best: {EVIL}, 22.5" in tags.text


def test_data_of_a_chart_cannot_end_its_script() -> None:
    assert (
        "</script>" not in chart({"text": "</script>"}, "").removesuffix("</figure>").split("</script><figcaption>")[0]
    )


def test_page_says_what_was_run(runs: Path) -> None:
    text = parsed(write_report(make_report(runs))).text
    for value in ("5f3a", "90ab", "uint8 / 255, float32, NCHW", "periodic(every_batches=2)", "torch 2.13.0", "0, 1"):
        assert value in text
    assert "Accuracy estimated without labels" in text
    assert "source et al." in text


def test_fingerprint_of_every_run_is_on_the_page(runs: Path) -> None:
    text = parsed(write_report(make_report(runs))).text
    fingerprints = [re.search(r'"fingerprint": "(\w+)"', path.read_text()) for path in runs.rglob("manifest.json")]
    assert len(fingerprints) == 4
    assert all(match and match[1] in text for match in fingerprints)


def test_metric_is_the_readers_choice(runs: Path) -> None:
    text = parsed(write_report(make_report(runs, "accuracy"))).text
    assert "77.5\N{NO-BREAK SPACE}% accuracy; source 52.5\N{NO-BREAK SPACE}%" in text
    assert "Accuracy over time" in text
    assert "Error" not in text


def test_unfinished_runs_are_listed_with_how_far_they_got(runs: Path, write_run: WriteRun) -> None:
    assert "Unfinished" not in parsed(write_report(make_report(runs))).text
    write_run("eata", batches({"fog": [5, 5, 5]}), finished=False, length=8980)
    text = parsed(write_report(make_report(runs))).text
    assert "1 not finished" in text
    assert "30 of 8,980 samples" in text


def test_report_of_nothing_but_unfinished_runs(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("eata", batches({"fog": [5]}), finished=False, length=8980)
    assert "10 of 8,980 samples" in parsed(write_report(make_report(tmp_path / "runs"))).text


def test_several_tables_have_a_list_of_contents(runs: Path, write_run: WriteRun) -> None:
    write_run("tent", batches({"fog": [9]}), protocol={"batch_size": 20})
    tags = parsed(write_report(make_report(runs)))
    ids = [attributes["id"] for tag, attributes in tags.tags if tag == "section"]
    links = [str(attributes["href"]) for tag, attributes in tags.tags if tag == "a"]
    assert ids == ["table-0", "table-1"]
    assert [link for link in links if link.startswith("#")] == ["#table-0", "#table-1"]
    assert len(list(runs.glob("*.csv"))) == 3  # of one of the tables the estimates too


def test_runs_are_read_and_tables_made_once_for_page_and_terminal(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def counted(module: ModuleType, name: str) -> None:
        function = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given: (calls.append(name), function(*given))[1])

    counted(make, "read_runs")
    counted(make, "make_tables")
    counted(table_sections, "error_table")
    counted(table_sections, "gain_table")
    report = make_report(runs)
    page = write_report(report)
    assert calls == ["read_runs", "make_tables", "gain_table", "error_table"]
    assert "Accuracy estimated without labels" in page.read_text(encoding="utf-8")
    printed = report_to_markdown(report)
    assert "Accuracy estimated without labels" in printed
    assert (runs / "report-continual-digits-resnet.md").read_text(encoding="utf-8") in printed


def test_no_style_goes_by_the_position_of_a_column() -> None:
    assert "nth-" not in Path(make.__file__).with_name("page.css").read_text(encoding="utf-8")


def test_a_failed_write_leaves_the_old_page(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = write_report(make_report(runs))
    before = page.read_bytes()

    def full_disk(*_: object, **__: object) -> int:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(OSError, match="no space"):
        write_report(make_report(runs, "accuracy"))
    assert page.read_bytes() == before


BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome on this machine")


def opened(address: str, tmp_path: Path) -> str:
    """Return the document that a browser has made of a page, without scripts; an error of the page raises."""
    quiet = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync"
    offline = "--disable-background-networking --disable-component-update"
    logged = "--enable-logging=stderr --v=0 --virtual-time-budget=10000 --dump-dom"
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    command = [str(BROWSER), *quiet.split(), *offline.split(), *logged.split(), profile, address]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "CONSOLE" not in result.stderr, result.stderr
    return re.sub(r"<script.*?</script>", "", result.stdout, flags=re.DOTALL)


@pytest.mark.slow
@needs_browser
def test_a_browser_opens_one_of_many_tables_alone(
    runs: Path, write_run: WriteRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run("tent", batches({"fog": [9, 8, 7]}), protocol={"batch_size": 20})
    assert "hidden" not in "".join(re.findall("<section[^>]*>", write_report(make_report(runs)).read_text()))
    monkeypatch.setattr("holdfast.report.report.MANY", 1)
    page = write_report(make_report(runs))
    text = parsed(page).text
    assert "best: " in text  # the list has the conclusions
    assert "Protocol" not in text
    drawn = opened(f"{page.as_uri()}#table-1", tmp_path)
    closed, shown = re.findall("<section id=.*?</section>", drawn, flags=re.DOTALL)
    assert "<h2>" not in closed
    assert "hidden" in closed.partition(">")[0]
    assert "hidden" not in shown.partition(">")[0]
    assert "Protocol" in shown
    assert shown.count('class="lines"><path class="js-line"') >= 1


@needs_browser
def test_a_browser_draws_the_charts_without_an_error(runs: Path, tmp_path: Path) -> None:
    drawn = opened(write_report(make_report(runs)).as_uri(), tmp_path)
    charts = drawn.split('class="chart')[1:]
    assert len(charts) == 7
    assert charts[0].count('class="lines"><path class="js-line"') == 2  # a curve for each recipe
    assert charts[0].count('class="point"') == 1  # a tick for the resets, at the same position in both seeds
    assert charts[1].count('class="lines"><path class="js-line"') == 2  # confidence of each recipe
    assert charts[2].count('class="lines"><path class="js-line"') == 2  # entropy
    assert charts[3].count('class="point"') == 2
    assert charts[4].count('class="lines"><path class="js-line"') == 2  # estimate and truth
    assert charts[6].count('class="point"') == 1  # one bin
    assert "&lt;script&gt;alert(1)" in charts[0]
    assert "plotlyjsicon" not in drawn


def test_runs_at_the_size_of_a_smoke_test_are_marked_on_the_page_and_in_the_files(
    tmp_path: Path, write_run: WriteRun
) -> None:
    for label in ("source", "tent"):
        write_run(label, batches({"fog": [5, 6]}))
    page = write_report(make_report(tmp_path / "runs"))
    warning = "Smoke scale: 20 samples a run, a standard error of up to 11 points"
    assert warning in page.read_text()
    assert all(warning in path.read_text() for ending in ("md", "tex") for path in page.parent.glob(f"*.{ending}"))


def test_runs_of_a_few_hundred_samples_are_not(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("source", batches({"fog": [5] * 30}))
    assert "Smoke scale" not in write_report(make_report(tmp_path / "runs")).read_text()


def test_a_run_of_one_batch_draws_a_point(tmp_path: Path, write_run: WriteRun) -> None:
    for label in ("source", "tent"):
        write_run(label, batches({"fog": [5]}))
    page = write_report(make_report(tmp_path / "runs")).read_text()
    assert '"mode":"lines+markers","name":"tent"' in page
    assert '"mode":"lines","name":"tent"' not in page
