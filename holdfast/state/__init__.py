"""State: what changes while a model runs; declared once, kept in snapshots, digests and files by one walker."""

from holdfast.state.checks import check_saved
from holdfast.state.contents import Contents, Inventory, Moving, contents, declaring
from holdfast.state.digest import state_digest
from holdfast.state.files import OtherStateError, SavedStateError, pack_state, read_state, write_state
from holdfast.state.snapshot import VERSION, Copies, Savepoint, put_back, snapshot_of, state_of
from holdfast.state.stateful import Stateful
from holdfast.state.tree import containers, copied, leaves, map_tensors, modules_of, named_modules_of, rebuild

__all__ = [
    "VERSION",
    "Contents",
    "Copies",
    "Inventory",
    "Moving",
    "OtherStateError",
    "SavedStateError",
    "Savepoint",
    "Stateful",
    "check_saved",
    "containers",
    "contents",
    "copied",
    "declaring",
    "leaves",
    "map_tensors",
    "modules_of",
    "named_modules_of",
    "pack_state",
    "put_back",
    "read_state",
    "rebuild",
    "snapshot_of",
    "state_digest",
    "state_of",
    "write_state",
]
