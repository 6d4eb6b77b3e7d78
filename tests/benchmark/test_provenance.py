"""The commit of a run is the one that git has checked out around the package."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from holdfast.machine.folders import commit_of


def git(folder: Path, *arguments: str) -> str:
    """Run git as somebody, and return what it prints."""
    somebody = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", folder, *somebody, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("layout", ["branch", "worktree"])
def test_the_commit_is_found_from_inside(layout: str, tmp_path: Path) -> None:
    inner = tmp_path / "repository" / "package"
    inner.mkdir(parents=True)
    git(inner.parent, "init", "--quiet")
    (inner / "a.py").write_text("")
    git(inner.parent, "add", "-A")
    git(inner.parent, "commit", "--quiet", "--message", "first")
    commit = git(inner.parent, "rev-parse", "HEAD")
    if layout == "worktree":
        git(inner.parent, "worktree", "add", "--quiet", str(tmp_path / "other"))
        inner = tmp_path / "other" / "package"
    assert len(commit) == 40
    assert commit_of(inner) == commit


def test_an_installed_package_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert commit_of(tmp_path) is None


def test_without_git_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert commit_of() is None
