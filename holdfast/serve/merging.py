"""Merge what several replicas say about themselves into one status and one set of metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.serve.limits import RefusedError


def merged_status(parts: Sequence[Mapping[str, Any] | None]) -> dict[str, Any]:
    """Return the status of a service from those of its replicas; None stands for one that does not answer.

    >>> one = {"model": {}, "queue": 2, "ready": True, "learning_stopped": None, "audit": None, "tenants": {"a": {}}}
    >>> merged = merged_status([one, None])
    >>> merged["queue"], merged["ready"], merged["replicas"][1], list(merged["tenants"])
    (2, False, {'ready': False}, ['a'])
    """
    known = [part for part in parts if part is not None]
    if not known:
        raise RefusedError(503, "no replica answers; try again later")
    shown = ("ready", "uptime_seconds", "learning_stopped", "queue", "audit")
    tenants = {name: value for part in known for name, value in part["tenants"].items()}
    return {
        **known[0],
        "uptime_seconds": max(part.get("uptime_seconds", 0.0) for part in known),
        "ready": len(known) == len(parts) and all(part["ready"] for part in known),
        "learning_stopped": next((part["learning_stopped"] for part in known if part["learning_stopped"]), None),
        "queue": sum(part["queue"] for part in known),
        "audit": None,  # each replica has its own log
        "tenants": dict(sorted(tenants.items())),
        "replicas": [
            {"ready": False} if part is None else {name: part[name] for name in shown if name in part} for part in parts
        ],
    }


def merged_metrics(texts: Mapping[str, str]) -> str:
    r"""Return metrics of several replicas in one text, each line with the label `replica`.

    >>> text = "# HELP a Text.\n# TYPE a gauge\na{tenant=\"x\"} 1.0\n# HELP b Text.\n# TYPE b gauge\nb 2.0\n"
    >>> print(merged_metrics({"0": text, "1": text.replace("2.0", "3.0")}), end="")
    # HELP a Text.
    # TYPE a gauge
    a{replica="0",tenant="x"} 1.0
    a{replica="1",tenant="x"} 1.0
    # HELP b Text.
    # TYPE b gauge
    b{replica="0"} 2.0
    b{replica="1"} 3.0
    """
    families: dict[str, dict[str, None]] = {}  # lines by family, each once, in order
    for replica, text in texts.items():
        family: dict[str, None] = {}
        for line in text.splitlines():
            if line.startswith("# HELP"):
                family = families.setdefault(line.split()[2], {})
            family[line if line.startswith("#") else _labelled(line, replica)] = None
    return "".join(f"{line}\n" for family in families.values() for line in family)


def _labelled(line: str, replica: str) -> str:
    name, brace, labels = line.partition("{")
    if brace:
        return f'{name}{{replica="{replica}",{labels}'
    name, _, value = line.partition(" ")
    return f'{name}{{replica="{replica}"}} {value}'
