"""A session with the service gives the answers, the log and the metrics that were recorded; times are left out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from holdfast.serve.audit import read_audit
from holdfast.serve.state_folder import LOG_NAME
from tests.serve.bodies import NPY, npy
from tests.serve.conftest import batches

Check = Callable[[object], None]
CHANGING = re.compile("time|created|seconds|uptime|memory|bytes|version|folder|path|host")
MARK = re.compile(r"\b[0-9a-f]{32}\b|(?:(?<=-)|^)[0-9a-f]{6}\b")  # digests, and the tags of ids


class Named:
    """Values without what differs between runs: digests and tags become numbers, in the order in which they come."""

    def __init__(self) -> None:
        self.marks: dict[str, str] = {}

    def __call__(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self.text(key): self(item) for key, item in value.items() if not CHANGING.search(key)}
        if isinstance(value, (list, tuple)):
            return [self(item) for item in value]
        return self.text(value) if isinstance(value, str) else value

    def text(self, text: str) -> str:
        """Return a text with each digest and tag numbered."""
        return MARK.sub(lambda found: self.marks.setdefault(found.group(), f"#{len(self.marks)}"), text)


def test_session(recorded: Check, client: Any) -> None:
    named, answers = Named(), []
    inputs = batches(8)

    def note(method: str, address: str, **sent: Any) -> Any:
        answer = client.request(method, address, **sent)
        answers.append([f"{method} {address}", answer.status_code, named(answer.json())])
        return answer.json()

    def predict(tenant: str, index: int, count: int = 4) -> Any:
        sent = {"content": npy(inputs[index, :count].numpy()), "headers": {**NPY, "X-Tenant": tenant}}
        return note("POST", "/v1/predict?logits=true", **sent)

    note("GET", "/healthz")
    note("GET", "/readyz")
    first = predict("north", 0)
    predict("south", 1)
    second = predict("north", 2, count=1)
    note("POST", "/v1/feedback", json={"id": first["ids"][0], "label": 3})
    note("POST", "/v1/feedback", json={"id": first["ids"][0], "label": 3})  # again
    note("POST", "/v1/feedback", json={"id": first["ids"][1], "label": first["classes"][1]})
    note("POST", "/v1/feedback", json={"id": second["ids"][0], "correct": True})
    note("POST", "/v1/feedback", json={"id": first["ids"][2], "label": None})
    note("POST", "/v1/feedback", json={"id": first["ids"][3], "label": 99})  # no such class
    note("GET", "/v1/tenants/north/status")
    note("POST", "/v1/tenants/north/freeze")
    predict("north", 3)
    note("POST", "/v1/tenants/north/resume")
    predict("north", 4)
    note("POST", "/v1/tenants/north/reset")
    predict("north", 5)
    note("POST", "/v1/tenants/west/reset")  # nobody has used it
    note("POST", "/v1/predict", json={"inputs": [[1, 2]]})  # another shape
    note("GET", "/v1/tenants/north/history?count=3")
    note("GET", "/v1/status")
    note("GET", "/v2")
    note("GET", "/v2/models/holdfast")
    lines = client.get("/metrics").text.splitlines()
    metrics = [line for line in lines if line.startswith("holdfast") and not CHANGING.search(line)]
    log = client.service.tenants.disk.folder / LOG_NAME
    recorded(
        {
            "answers": answers,
            "metrics": [named.text(line) for line in metrics],
            "log": [named(decision.to_dict()) for decision in read_audit(log)],
        }
    )
