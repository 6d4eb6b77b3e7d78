"""Names that a shell completes; `holdfast --install-completion` switches it on."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import typer

from holdfast.options.suite_files import scale_names, suite_names


def _completing(names: Callable[[typer.Context], Iterable[str]]) -> Callable[[typer.Context, str], list[str]]:
    """Return a function for the shell, from one that returns all names."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        """Return the names that begin with what was typed."""
        return sorted(name for name in names(ctx) if name.startswith(incomplete))

    return complete


def _scales(ctx: typer.Context) -> set[str]:
    """Return the scales of the suite before the cursor; of all suites if an option without its value hides it."""
    every, named = suite_names(), ctx.params.get("suite")
    return {scale for name in ([named] if named in every else every) for scale in scale_names(str(name))}


def _methods(_: typer.Context) -> list[str]:
    from holdfast.commands.description import list_methods

    return ["auto", *list_methods()]


def _models(_: typer.Context) -> list[str]:
    from holdfast.models import MODELS

    return MODELS.names()


ROOMS = ("methods", "recoveries", "estimators", "corruptions", "streams", "suites", "models", "data")

scales, methods, models = map(_completing, (_scales, _methods, _models))
suites = _completing(lambda _: suite_names())  # from the files: a shell should not wait for torch
rooms = _completing(lambda _: ROOMS)
executors = _completing(lambda _: ("serial", "processes", "ray", "slurm"))
metrics = _completing(lambda _: ("error", "accuracy"))
