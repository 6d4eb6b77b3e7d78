from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from run_files import PROTOCOL, Row, WriteRun


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    """Write a run folder below `tmp_path / "runs"` and return it."""

    def write(
        label: str,
        rows: list[Row],
        *,
        seed: int = 0,
        method: str | None = None,
        options: Mapping[str, Any] | None = None,
        recovery: str | None = None,
        stream: str = "continual",
        protocol: Mapping[str, Any] | None = None,
        finished: bool = True,
        folder: Path | None = None,
        length: int | None = None,
    ) -> Path:
        content = {**PROTOCOL, "seed": seed, **(protocol or {})}
        domains = list(dict.fromkeys(name for one in rows for name in one["domains"]))
        spec = json.dumps([label, options, recovery, stream, content]).encode()
        target = (
            folder
            or tmp_path / "runs" / f"{len(list(tmp_path.glob('runs/*'))):02d}-{hashlib.md5(spec).hexdigest()[:8]}"
        )
        target.mkdir(parents=True)
        manifest = {
            "schema": 1,
            "suite": "demo",
            "job": target.name,
            "recipe": {
                "name": label,
                "label": label,
                "method": method or label,
                "preset": None,
                "options": dict(options or {}),
                "recovery": recovery,
                "recovery_options": {},
                "estimators": {},
                "citation": f"{label} et al.",
            },
            "model": {"name": content["model"], "parameters": 77754, "normalisation": "batch"},
            "stream": {
                "name": stream,
                "label": stream,
                "domains": domains,
                "length": length or sum(one["size"] for one in rows),
                "spec": {},
            },
            "seed": seed,
            "protocol": content,
            "fingerprint": hashlib.md5(json.dumps(content, sort_keys=True).encode()).hexdigest(),
        }
        (target / "manifest.json").write_text(json.dumps(manifest))
        (target / "rows.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
        if finished:
            (target / "summary.json").write_text("{}")
        return target

    return write
