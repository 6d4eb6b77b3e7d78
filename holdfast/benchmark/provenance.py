"""Which version of the source code a run was made with."""

from __future__ import annotations

from pathlib import Path

import holdfast

__all__ = ["commit_of"]


def commit_of(folder: Path | None = None) -> str | None:
    """Return the commit that is checked out around a folder, by default this package; None for an installed package.

    Read from git's own files; changes that are not committed are not seen.
    """
    start = Path(holdfast.__file__).resolve().parent if folder is None else folder
    for parent in (start, *start.parents):
        git = parent / ".git"
        if git.is_file():  # a worktree: a file that names its folder
            git = (parent / git.read_text().removeprefix("gitdir:").strip()).resolve()
        if (git / "HEAD").is_file():
            return _read(git, (git / "HEAD").read_text().strip())
    return None


def _read(git: Path, head: str) -> str | None:
    """Return the commit of a HEAD, which is one itself or names a branch."""
    if not head.startswith("ref: "):
        return head
    name = head.removeprefix("ref: ")
    shared = git / "commondir"  # a worktree keeps its branches in the main repository
    root = (git / shared.read_text().strip()).resolve() if shared.is_file() else git
    if (root / name).is_file():
        return (root / name).read_text().strip()
    packed = root / "packed-refs"
    lines = packed.read_text().splitlines() if packed.is_file() else []
    return next((line.split()[0] for line in lines if line.endswith(f" {name}")), None)
