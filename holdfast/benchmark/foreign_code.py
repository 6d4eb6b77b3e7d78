"""Models that run code: a suite file or a received run folder may name one only if the user says so."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.benchmark.job import Job
from holdfast.options.spec import Spec

__all__ = ["check_code", "check_model_code", "runs_code"]

RUN_CODE = ("imported", "file", "hub")  # models that call a function of any package, file or repository
KNOWN = ("holdfast.", "torchvision.models", "timm")  # packages whose functions return networks and do nothing else


def runs_code(model: Spec) -> bool:
    """Return whether building a model calls a function that the model itself names.

    >>> runs_code(Spec("imported", options={"target": "os:system"})), runs_code(Spec("file:net.py:make"))
    (True, True)
    >>> runs_code(Spec("digits_resnet")), runs_code(Spec("imported:torchvision.models:resnet50"))
    (False, False)
    """
    kind, _, target = model.name.partition(":")
    if kind not in RUN_CODE:
        return False
    target = target or str(model.options.get("target", ""))
    return kind != "imported" or not target.startswith(KNOWN)


def check_code(jobs: Iterable[Job], origin: str, allowed: bool) -> None:
    """Raise if a job from a file runs code that it names itself, and the user has not allowed that."""
    check_model_code([job.model for job in jobs], origin, allowed)


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
