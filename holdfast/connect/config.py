"""The file names of a shared folder, and what its `config.json` says."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from holdfast.machine.folders import write_whole
from holdfast.state import SavedStateError

CONFIG = "config.json"
STATE = "adaptation.safetensors"  # all that adaptation has changed
MOMENTS = "moments.safetensors"  # of the source data
WEIGHTS = "model.safetensors"  # of the source network
README = "README.md"  # the model card
FILES = (CONFIG, STATE, MOMENTS, WEIGHTS, README)


@dataclass(frozen=True)
class Config:
    """What a shared folder holds."""

    kind: Literal["adapted", "card", "recipe"]
    holdfast: str  # the version that wrote it
    network: str | None = None  # the name of the source network, with its options
    weights: str | None = None  # digest of the source network
    recipe: dict[str, Any] | None = None  # names and options, as `AdaptedModel.recipe` writes them
    labelling: dict[str, Any] | None = None  # how a guarded model asks for labels
    digest: str | None = None  # of the state, or of the moments
    samples: int | None = None  # of the source data, for a card
    input_kind: str | None = None
    input_shape: list[int] | None = None
    classes: int | None = None


def write_config(folder: Path, config: Config) -> None:
    """Write `config.json`, without what is not known."""
    known = {key: value for key, value in asdict(config).items() if value is not None}
    write_whole(folder / CONFIG, f"{json.dumps(known, indent=1)}\n".encode())


def read_config(folder: Path) -> Config:
    """Read the `config.json` of a folder."""
    path = folder / CONFIG
    try:
        return TypeAdapter(Config).validate_python(json.loads(path.read_text()))
    except FileNotFoundError as error:
        raise FileNotFoundError(f"there is no {CONFIG} in {folder}; pass a folder that write_folder wrote") from error
    except (ValidationError, ValueError, RecursionError) as error:
        raise SavedStateError(f"{path} is not a {CONFIG} of holdfast; use another copy of it") from error
