"""`holdfast demo`: a first benchmark on the data in the package."""

from __future__ import annotations

from pathlib import Path

from holdfast.cli.bench import run_suite
from holdfast.cli.options import Device, Executor, Out, Workers
from holdfast.cli.printing import console
from holdfast.cli.report import print_report

__all__ = ["demo"]


def demo(
    out: Out = Path("runs"), executor: Executor = "processes", workers: Workers = 2, device: Device = None
) -> None:
    """Compare methods on streams of the embedded digits and keywords, and write one report."""
    from holdfast.data import Keywords

    placed = {} if device is None else {"device": device}
    run_suite("demo", out, placed, executor=executor, workers=workers)
    try:
        Keywords()  # synthesised at their first use, before several workers need them
    except ImportError as error:
        console.print(f"Skipping the audio demo: {error}", markup=False)
    else:
        run_suite("demo-audio", out / "demo", placed, executor=executor, workers=workers)
    print_report(out / "demo")
