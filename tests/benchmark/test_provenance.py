"""The commit of a run is read from git's files, without running git."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.benchmark.provenance import commit_of

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize("layout", ["detached", "branch", "packed", "worktree"])
def test_every_layout_of_a_repository(layout: str, tmp_path: Path) -> None:
    git = tmp_path / ".git"
    (git / "refs/heads").mkdir(parents=True)
    (git / "HEAD").write_text(f"{COMMIT}\n" if layout == "detached" else "ref: refs/heads/main\n")
    if layout == "packed":
        (git / "packed-refs").write_text(f"# pack-refs\n{COMMIT} refs/heads/main\n")
    else:
        (git / "refs/heads/main").write_text(f"{COMMIT}\n")
    inner = tmp_path / "package" / "room"
    if layout == "worktree":
        own = git / "worktrees/other"
        own.mkdir(parents=True)
        (own / "HEAD").write_text("ref: refs/heads/main\n")
        (own / "commondir").write_text("../..\n")
        inner = tmp_path / "elsewhere" / "package"
        inner.mkdir(parents=True)
        (inner.parent / ".git").write_text(f"gitdir: {own}\n")
    inner.mkdir(parents=True, exist_ok=True)
    assert commit_of(inner) == COMMIT


def test_an_installed_package_has_none(tmp_path: Path) -> None:
    assert commit_of(tmp_path) is None
