"""Tenant: what the service knows of one stream beside its state in the model or on disk."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.serve.decision import Decision
from holdfast.serve.resident import Resident

RUNS_KEPT = 64  # restores whose ids still take labels


@dataclass
class Tenant:
    """One stream: its counts, and its state unless that is in the model now or on disk."""

    name: str
    batches: int = 0
    samples: int = 0
    saved_at: int = -1  # batches at the last write; -1: never
    labelled: bool = False  # whether labels came since then
    saved_ids: int = 0  # samples served at the last write: their labels outlive a crash once they are logged
    frozen: bool = False
    digest: str = ""  # of the state
    resident: Resident | None = None
    runs: tuple[tuple[str, int], ...] = ()  # the tag of the ids given out since each restore, and the first of them
    tagged: bool = False  # whether the last of them is of this process

    @property
    def dirty(self) -> bool:
        """Whether the disk has an older state, or none."""
        return self.saved_at != self.batches or self.labelled

    def due(self, every: int) -> bool:
        """Return whether the state is to be written: it never was, or `every` batches ago."""
        return self.saved_at < 0 or self.batches - self.saved_at >= every

    # What happens to it -----------------------------------------------------------------------------------

    def count_batch(self, samples: int, digest: str) -> None:
        """Count a batch that left the state with this digest."""
        self.batches, self.samples, self.digest = self.batches + 1, self.samples + samples, digest

    def count_label(self) -> None:
        """Note a label that the state on disk does not have."""
        self.labelled = True

    def change(self, *, digest: str | None = None, frozen: bool | None = None) -> None:
        """Note what someone asked for; the disk does not have it yet."""
        self.digest = self.digest if digest is None else digest
        self.frozen = self.frozen if frozen is None else frozen
        self.saved_at = -1

    def count_write(self, ids: int) -> None:
        """Note that the state is on disk; `ids` is the number of its samples with ids."""
        self.saved_at, self.labelled, self.saved_ids = self.batches, False, ids

    def restart(self, digest: str) -> None:
        """Begin from the source, whose digest this is: the file of the state is lost."""
        self.digest, self.saved_at, self.runs, self.tagged, self.saved_ids = digest, -1, (), False, 0

    def keep(self, resident: Resident | None) -> None:
        """Keep the state in memory; None: it is in the model or on disk."""
        self.resident = resident

    # Ids --------------------------------------------------------------------------------------------------

    def tag(self, ids: int) -> str:
        """Return the tag of the ids that are given out after the first `ids`, a new one after each restore."""
        if not self.tagged:
            self.runs, self.tagged = (*self.runs, (secrets.token_hex(3), ids))[-RUNS_KEPT:], True
        return self.runs[-1][0]

    def tag_of(self, sample_id: int) -> str:
        """Return the tag that a sample's id has."""
        return next((tag for tag, first in reversed(self.runs) if first <= sample_id), "")

    def issued(self, tag: str, sample_id: int) -> bool:
        """Return whether an id with this tag belongs to a prediction that the state knows.

        >>> tenant = Tenant("north", runs=(("a", 0), ("b", 32)))  # restored after 32 samples: later ones of a are lost
        >>> [tenant.issued(*one) for one in (("a", 31), ("a", 32), ("b", 32), ("c", 1))]
        [True, False, True, False]
        """
        ends = [first for _, first in self.runs[1:]] + [sample_id + 1]
        return any(name == tag and first <= sample_id < end for (name, first), end in zip(self.runs, ends, strict=True))

    # Written down -----------------------------------------------------------------------------------------

    def note(self, ids: int, logged: Sequence[Any] | None) -> dict[str, Any]:
        """Return what the file of the state says beside it; `logged` is the last record of the log."""
        return {
            "tenant": self.name,
            "batches": self.batches,
            "samples": self.samples,
            "frozen": self.frozen,
            "digest": self.digest,
            "runs": [list(run) for run in self.runs],
            "ids": ids,
            "logged": logged,
        }

    def restore(self, note: Mapping[str, Any]) -> None:
        """Take the counts that a file says, or raise KeyError, TypeError or ValueError."""
        batches, samples, ids = int(note["batches"]), int(note["samples"]), int(note.get("ids", 0))
        runs = tuple((str(tag), int(first)) for tag, first in note.get("runs", ()))
        self.frozen, self.digest = bool(note["frozen"]), str(note["digest"])
        self.batches, self.samples, self.saved_at, self.saved_ids, self.runs = batches, samples, batches, ids, runs

    def decision(self, kind: str, before: str, reason: str = "asked for", **fields: Any) -> Decision:
        """Return the record of what happened beside batches; `before` is the digest of the state before."""
        return Decision(
            time=time.time(),
            tenant=self.name,
            kind=kind,
            batch=self.batches,
            before=before,
            after=self.digest,
            committed=before != self.digest,
            reason=reason,
            **fields,
        )
