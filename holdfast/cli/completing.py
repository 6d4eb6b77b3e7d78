"""Names that a shell completes; `holdfast --install-completion` switches it on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import resources

import typer

from holdfast.options.yaml_text import load_yaml


def _completing(names: Callable[[typer.Context], Iterable[str]]) -> Callable[[typer.Context, str], list[str]]:
    """Return a function for the shell, from one that returns all names."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        """Return the names that begin with what was typed."""
        return sorted(name for name in names(ctx) if name.startswith(incomplete))

    return complete


def _suites(_: typer.Context) -> list[str]:
    # Read from the files: a shell should not wait for torch.
    files = (resources.files("holdfast") / "benchmark" / "suites").iterdir()
    return [entry.name.removesuffix(".yaml") for entry in files if entry.name.endswith(".yaml")]


def _scales(ctx: typer.Context) -> set[str]:
    """Return the scales of the suite before the cursor; of all suites if an option without its value hides it."""
    folder, every = resources.files("holdfast") / "benchmark" / "suites", _suites(ctx)
    named = ctx.params.get("suite")
    texts = ((folder / f"{name}.yaml").read_text() for name in ([named] if named in every else every))
    return {scale for text in texts for scale in load_yaml(text).get("scales", {})}


def _methods(_: typer.Context) -> list[str]:
    from holdfast.commands.description import list_methods

    return ["auto", *list_methods()]


def _models(_: typer.Context) -> list[str]:
    from holdfast.models import MODELS

    return MODELS.names()


ROOMS = ("methods", "recoveries", "estimators", "corruptions", "streams", "suites", "models", "data")

suites, scales, methods, models = map(_completing, (_suites, _scales, _methods, _models))
rooms = _completing(lambda _: ROOMS)
executors = _completing(lambda _: ("serial", "processes", "ray", "slurm"))
metrics = _completing(lambda _: ("error", "accuracy"))
