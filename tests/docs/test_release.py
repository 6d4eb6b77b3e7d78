"""What belongs to a release agrees: version, changelog, pins and their hashes, workflow files and Makefile."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import holdfast

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not (ROOT / "CITATION.cff").exists(), reason="the repository is not beside the tests")


def locked() -> dict[str, str]:
    """Return the versions in the lock file."""
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+) \\$", (ROOT / "requirements.lock").read_text(), re.MULTILINE))


def requirements(*tables: str) -> list[Requirement]:
    """Return the requirements of `[project]` and of these extras."""
    text = (ROOT / "pyproject.toml").read_text()
    lists = [re.search(rf"^{table} = \[(.*?)\n?\]$", text, re.MULTILINE | re.DOTALL) for table in tables]
    return [Requirement(name) for part in lists if part for name in re.findall(r'"([^"]+)"', part[1])]


def test_the_changelog_begins_with_this_version_and_the_citation_has_its_date() -> None:
    versions = re.findall(r"^## \[(.+?)\](?: - (\S+))?$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    released = next((version, date) for version, date in versions if version != "Unreleased")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert released == (holdfast.__version__, str(citation["date-released"]))


def test_the_newest_section_says_in_single_sentences_what_a_user_sees() -> None:
    section = re.split(r"^## \[", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    text = next(part for part in section if part.startswith(holdfast.__version__))
    assert re.findall(r"^### (.+)$", text, re.MULTILINE) == ["Added", "Changed", "Fixed", "Upgrading"]
    lines = [" ".join(line.split()) for line in re.findall(r"^- (.+(?:\n  .+)*)", text, re.MULTILINE)]
    assert len(lines) > 30
    assert [line for line in lines if not line.endswith(".") or re.search(r"[a-z)`]\. [A-Z`]", line)] == []


def test_the_lock_pins_every_requirement_as_the_constraints_do() -> None:
    pins = locked()
    wanted = {canonicalize_name(requirement.name) for requirement in requirements("dependencies", "dev", "docs")} - {
        "torch"
    }
    assert wanted - set(pins) == set(), "run `make lock`"
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    given = [Requirement(line) for line in lines if line and not line.startswith("#")]
    tested = [pin for pin in given if pin.marker is None or pin.marker.evaluate({"python_version": "3.11"})]
    stale = [
        str(pin)
        for pin in tested
        if str(pin.specifier) != f"=={pins.get(name := canonicalize_name(pin.name))}" and name in pins
    ]
    assert stale == [], "run `make lock`"


def test_the_lock_has_a_hash_for_every_package_and_names_no_registry() -> None:
    text = (ROOT / "requirements.lock").read_text()
    entries = re.findall(r"^([a-z0-9-]+==\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", text, re.MULTILINE)
    assert [name for name, _ in entries] == [f"{name}=={version}" for name, version in locked().items()]
    assert text.count("==") == len(entries)
    assert "://" not in text


def test_the_workflows_call_what_the_repository_has() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    called = []
    for file in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        jobs = yaml.safe_load(file.read_text())["jobs"].values()
        called += [step["run"] for job in jobs for step in job["steps"] if "run" in step]
    made = [target for command in called for target in re.findall(r"\bmake ([a-z-]+)", command)]
    scripts = [script for command in called for script in re.findall(r"\.ci/\w+", command)]
    assert made
    assert scripts
    assert [name for name in made if name not in targets] == []
    assert [name for name in scripts if not (ROOT / name).exists()] == []
    run = (ROOT / ".ci" / "run").read_text()
    assert [name for name in ("check", "test-slow", "test", "docs", "package") if f"make {name} " not in run] == []
    assert ".ci/workflows" in run  # which runs actionlint


def test_the_oldest_torch_is_the_same_everywhere() -> None:
    oldest = next(
        str(requirement.specifier) for requirement in requirements("dependencies") if requirement.name == "torch"
    )[2:]
    for page in ("README.md", "docs/install.md", "docs/api_stability.md"):
        assert f"torch {oldest} " in (ROOT / page).read_text().replace("\n", " "), page
    assert f"torch=={oldest}.*" in (ROOT / ".github/workflows/ci.yml").read_text()
