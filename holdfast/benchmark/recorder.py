"""The recorder: joins predictions with labels, the only module that does, and appends one row per batch."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from holdfast.decode.plain_json import finite
from holdfast.machine.folders import writing
from holdfast.records import Batch, Row, Step


def make_row(batch: Batch, step: Step, step_seconds: float) -> Row:
    """Return the row of a batch: its predictions joined with its labels."""
    logits = step.logits.cpu()  # the one transfer of a row
    log_probs = logits.float().log_softmax(1)
    probs = log_probs.exp()
    right = (logits.argmax(1).numpy() == batch.labels).tolist()
    counts: dict[str, tuple[int, int]] = {}
    for domain, hit in zip(batch.domains, right, strict=True):
        correct, samples = counts.get(domain, (0, 0))
        counts[domain] = (correct + hit, samples + 1)
    return Row(
        position=batch.position,
        size=len(batch),
        domains=counts,
        accuracy=sum(right) / len(right),
        confidence=float(probs.amax(1).mean()),
        entropy=float(-(probs * log_probs).nansum(1).mean()),
        loss=step.loss,
        estimates=step.estimates,
        recovered=step.recovered,
        skipped=step.skipped,
        forwards=step.forwards,
        backwards=step.backwards,
        step_seconds=step_seconds,
        expected=batch.expected,
        gauges=step.gauges,
        estimating=step.estimating,
    )


class Recorder:
    """Appends rows to a file, after cutting it to a size at which all rows were complete."""

    def __init__(self, path: Path, *, keep_bytes: int = 0, samples: int = 0, correct: int = 0) -> None:
        self._path = path
        self._file = path.open("ab")
        there = self._file.seek(0, os.SEEK_END)
        if there < keep_bytes:
            self._file.close()
            raise ValueError(
                f"{path} has {there} bytes, but had {keep_bytes} when the state was saved; rows were lost, so delete "
                "the folder to start this run again"
            )
        self._file.truncate(keep_bytes)
        self.samples, self.correct = samples, correct  # of the rows that are kept

    def write(self, row: Row) -> None:
        """Append one row."""
        with writing(self._path):
            self._file.write(json.dumps(finite(asdict(row))).encode() + b"\n")
        self.correct += sum(correct for correct, _ in row.domains.values())
        self.samples += row.size

    def sync(self) -> int:
        """Flush every row to disk and return the size of the file."""
        with writing(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())
        return self._file.tell()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(OSError):  # a full disk: rows after the last saved state are made again
            self._file.close()
