"""Options that several commands share, and how their values are parsed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer
import yaml

from holdfast.cli import completing
from holdfast.options.yaml_text import load_yaml
from holdfast.registry import UnknownNameError, nearest

if TYPE_CHECKING:
    from holdfast.report import Metric

AllowCode = Annotated[
    bool,
    typer.Option(
        "--allow-code",
        help="Allow a suite file or run folder to run code that it names: imports, models such as imported: and file:.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text, for scripts.")]
CardFile = Annotated[
    Path | None, typer.Option("--card", help="Follow inputs from this card of the model's source data (holdfast card).")
]
Device = Annotated[
    str | None,
    typer.Option(help="Compute on auto, cpu, cuda, cuda:1 or mps; by default where the suite says, else on the CPU."),
]
DataArgument = Annotated[
    str, typer.Argument(help="Clean data of your own: a name, or YAML such as {name: digits, split: validation}.")
]
ModelArgument = Annotated[
    str,
    typer.Argument(
        help="A model: a name, timm:…, hf:…, or YAML {name: …, option: …}.", autocompletion=completing.models
    ),
]
Imports = Annotated[
    list[Path] | None,
    typer.Option(
        "--import", metavar="FILE.py", help="Load this Python file, which registers your own methods, data or streams."
    ),
]
Out = Annotated[Path, typer.Option("--out", help="Keep runs in this folder; finished ones are not repeated.")]
Scale = Annotated[
    str | None,
    typer.Option(
        help="Use one of the suite's sizes, e.g. smoke or paper; holdfast list suites names them.",
        autocompletion=completing.scales,
    ),
]
SuiteName = Annotated[
    str,
    typer.Argument(help="A suite by name (see holdfast list suites) or a YAML file.", autocompletion=completing.suites),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="Override a key of the suite, e.g. --set streams.0.severity=3; may be repeated."),
]
Executor = Annotated[
    str,
    typer.Option(
        help="Run jobs one after the other (serial), in several processes (processes), or on a cluster (ray, slurm).",
        autocompletion=completing.executors,
    ),
]
Workers = Annotated[int, typer.Option(min=1, help="Run this many jobs at a time with every executor but serial.")]
MetricName = Annotated[str, typer.Option(help="Show error or accuracy in tables.", autocompletion=completing.metrics)]
ModelText = Annotated[
    str,
    typer.Option(
        help="Use this model: a name, or YAML such as {name: …, option: …}.", autocompletion=completing.models
    ),
]


def checked_metric(name: str) -> Metric:
    """Return a metric by name.

    >>> checked_metric("error")
    'error'
    """
    from holdfast.report.scores import Metric

    if name not in get_args(Metric):
        raise UnknownNameError(f"unknown metric {name!r}; {nearest(name, get_args(Metric))}")
    return cast("Metric", name)


def parse_mapping(option: str, text: str) -> dict[str, Any]:
    """Return the mapping that an option holds as YAML.

    >>> parse_mapping("--options", "{lr: 1e-3}")
    {'lr': 0.001}
    """
    try:
        parsed = load_yaml(text) or {}
    except yaml.YAMLError as error:
        raise ValueError(f"{option} is not YAML, got {text!r}; write e.g. '{{lr: 0.0001}}'") from error
    if not isinstance(parsed, dict):
        raise ValueError(f"{option} must be a mapping, got {text!r}; write e.g. '{{lr: 0.0001}}'")
    return parsed


def parse_settings(settings: list[str] | None) -> dict[str, Any]:
    """Return the overrides of `--set key=value`; values are YAML.

    >>> parse_settings(["seeds=[0, 1]", "streams.0.severity=3"])
    {'seeds': [0, 1], 'streams.0.severity': 3}
    """
    parsed = {}
    for setting in settings or []:
        key, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"--set {setting} has no value; write key=value, e.g. --set seeds=[0,1,2]")
        try:
            parsed[key] = load_yaml(value)
        except yaml.YAMLError as error:
            raise ValueError(f"the value of --set {setting} is not YAML; write e.g. --set seeds=[0,1,2]") from error
    return parsed
