"""The state folder: which model wrote its states, and how several replicas divide its tenants."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from torch import nn

from holdfast.machine.folders import held, write_whole
from holdfast.model.adapted import AdaptedModel
from holdfast.models.classifier import weights_digest

LOG = logging.getLogger(__name__)
SIGNED = "service.json"
LOG_NAME = "audit.db"
STATES = "*.safetensors"


def private(path: Path) -> None:
    """Let only the owner use a file or folder."""
    path.chmod(0o700 if path.is_dir() else 0o600)


def keep_private(folder: Path) -> None:
    """Let only the owner use a folder and what is in it; what belongs to others stays as it is, and is logged."""
    for one in (folder, *folder.iterdir()):
        try:
            private(one)
        except OSError as error:  # e.g. `lost+found` on a volume of its own
            LOG.warning("%s cannot be made private (%s); see who else can read it", one, error.strerror)


def sign(folder: Path, model: AdaptedModel) -> None:
    """Write down which model, method and options the states of a folder belong to; refuse those of another."""
    check_model(folder, model)
    write_whole(folder / SIGNED, json.dumps(_signature(model), indent=1).encode())


def check_model(folder: Path, model: AdaptedModel) -> None:
    """Raise if the states of a folder belong to another model, method or options."""
    signed = folder / SIGNED
    if not signed.is_file():
        return
    try:
        signature = json.loads(signed.read_text())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{signed} is damaged; restore it from a backup, or choose another folder") from error
    if signature != json.loads(json.dumps(_signature(model))):
        raise ValueError(
            f"the states in {folder} belong to another model, method or options; start with those of {SIGNED}, or "
            "choose another folder"
        )


def check_weights(folder: Path, network: nn.Module) -> None:
    """Raise if the states of a folder belong to other weights."""
    served = json.loads((folder / SIGNED).read_text())["weights"]
    present = weights_digest(network)
    if served != present:
        raise ValueError(
            f"the network has other weights ({present[:8]}) than the one that was served from {folder} ({served[:8]}); "
            "restore those weights"
        )


def _signature(model: AdaptedModel) -> dict[str, object]:
    return {"recipe": model.recipe, "weights": model.weights}


def shard_of(tenant: str, shards: int) -> int:
    """Return the shard of a tenant: the same in every process; with one shard more, few tenants move.

    >>> [shard_of(name, 3) for name in ("north", "south", "west")]
    [0, 0, 1]
    """
    weights = [hashlib.blake2b(f"{shard}:{tenant}".encode(), digest_size=8).digest() for shard in range(shards)]
    return weights.index(max(weights))


def shard_folder(folder: Path, shard: int) -> Path:
    """Return the folder of one shard's states and audit log."""
    return folder / f"shard-{shard}"


def audit_logs(folder: Path) -> list[Path]:
    """Return the audit logs in a state folder: its own, and one for each shard."""
    return [path for path in (folder / LOG_NAME, *(one / LOG_NAME for one in _shard_folders(folder))) if path.is_file()]


def divided(folder: Path, shards: int, model: AdaptedModel) -> None:
    """Move the state of each tenant to its shard (0 shards: to the folder itself); the caller holds the folder."""
    divided_before = _shard_folders(folder)
    if not divided_before and shards == 0:
        return
    homes = [shard_folder(folder, shard) for shard in range(shards)] or [folder]
    with ExitStack() as holding:
        for one in {*divided_before, *homes} - {folder}:
            one.mkdir(parents=True, exist_ok=True)
            holding.enter_context(held(one))
        for one in (folder, *divided_before):
            check_model(one, model)
        for one in (folder, *divided_before):
            for state in sorted(one.glob(STATES)):
                home = homes[shard_of(state.stem, shards)] if shards else folder
                if home != one:
                    _move(state, home / state.name)


@contextmanager
def divided_among(folder: Path, shards: int, model: AdaptedModel) -> Iterator[None]:
    """Hold a folder while `shards` replicas use it, each its own part."""
    folder.mkdir(parents=True, exist_ok=True)
    with held(folder):
        divided(folder, shards, model)
        yield


def _shard_folders(folder: Path) -> list[Path]:
    return sorted(one for one in folder.glob("shard-*") if one.is_dir())


def _move(old: Path, new: Path) -> None:
    if new.exists():
        raise ValueError(f"{old} and {new} are of the same tenant; remove the one that is not wanted")
    new.parent.mkdir(parents=True, exist_ok=True)
    old.rename(new)
