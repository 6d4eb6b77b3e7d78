"""Code that a suite file or a received run folder brings along: it runs only if the user says so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from holdfast.benchmark.job import Job
from holdfast.machine.folders import write_whole
from holdfast.models.base import RUNS_CODE
from holdfast.options.own_code import OwnFile, read_file
from holdfast.options.spec import Spec

FILES = "imports"  # the folder inside that of a run

KNOWN = ("holdfast.", "torchvision.models", "timm")  # packages whose functions return networks and do nothing else


def runs_code(model: Spec) -> bool:
    """Return whether building a model calls a function that the model itself names.

    >>> runs_code(Spec("imported", options={"target": "os:system"})), runs_code(Spec("file:net.py:make"))
    (True, True)
    >>> runs_code(Spec("digits_resnet")), runs_code(Spec("imported:torchvision.models:resnet50"))
    (False, False)
    """
    kind, _, target = model.name.partition(":")
    if kind not in RUNS_CODE:
        return False
    target = target or str(model.options.get("target", ""))
    return kind != "imported" or not target.startswith(KNOWN)


def admit_code(jobs: Sequence[Job], origin: str, allowed: bool) -> None:
    """Load the files that jobs depend on; raise if jobs run code that they name, and the user has not allowed that."""
    check_model_code([job.model for job in jobs], origin, allowed)
    admit_files([file for job in jobs for file in job.imports], origin, allowed)


def admit_files(files: Iterable[OwnFile], origin: str, allowed: bool) -> None:
    """Load files; raise if one is not loaded yet and the user has not allowed that."""
    wanted = [file for file in dict.fromkeys(files) if not file.is_loaded]
    if wanted and not allowed:
        names = ", ".join(file.name for file in wanted)
        raise ValueError(
            f"{origin} imports Python files: {names}; read them, and repeat the command with --allow-code, or with "
            f"--import {wanted[0].name}, if you trust them"
        )
    for file in wanted:
        file.load()


def keep_files(folder: Path, files: Iterable[OwnFile]) -> None:
    """Write the files that a run depends on into its folder."""
    for file in files:
        (folder / FILES).mkdir(exist_ok=True)
        write_whole(folder / FILES / file.name, file.text.encode())


def kept_files(folder: Path) -> tuple[OwnFile, ...]:
    """Return the files that `keep_files` wrote, without running them."""
    return tuple(read_file(path) for path in sorted((folder / FILES).glob("*.py")))


def check_model_code(models: Iterable[Spec], origin: str, allowed: bool) -> None:
    """Raise if a model from a file runs code that it names itself, and the user has not allowed that."""
    named = dict.fromkeys(
        model.name if ":" in model.name else str(model.to_json()) for model in models if runs_code(model)
    )
    if named and not allowed:
        raise ValueError(
            f"{origin} names models that run code of their own: {', '.join(named)}; read that code, and repeat the "
            "command with --allow-code if you trust it"
        )
