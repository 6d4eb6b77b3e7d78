"""Requests that are generated from both OpenAPI documents: no internal error, and every answer is a documented one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.serve.app import create_app
from holdfast.serve.front import create_front
from holdfast.serve.limits import Limits
from tests.serve.conftest import make_service
from tests.serve.test_front import Parts

EXAMPLES = 60
METHODS = ("get", "post")
KINDS = ("application/json", "application/x-npy", "image/png", "audio/wav", "multipart/form-data; boundary=a", "text/x")

words = st.one_of(st.sampled_from(["north", "model", "default", "..", "a/b", "", "nan", "-1", "1e999"]), st.text())
plain = st.none() | st.booleans() | st.integers() | st.floats() | words
values = st.recursive(plain, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=3))
messages = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(["north:0-abc", "north:-", ":"]) | values,
        "label": values,
        "correct": values,
        "tenant": values,
        "inputs": values | st.lists(st.dictionaries(st.sampled_from(["name", "shape", "data", "datatype"]), values)),
        "outputs": values,
        "parameters": values,
    },
)
bodies = st.one_of(messages.map(lambda said: json.dumps(said).encode()), st.binary(max_size=64))


@pytest.fixture(scope="module", params=["one service", "front"])
def clients(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Yield a client of each application."""
    folder: Path = tmp_path_factory.mktemp("generated")
    if request.param == "one service":
        with TestClient(create_app(make_service(folder, budget=1.0)), raise_server_exceptions=False) as client:
            yield client
        return
    parts = Parts(folder)
    for service in parts.services:
        service.start()
    with TestClient(create_front(parts.reach, shards=2, limits=Limits()), raise_server_exceptions=False) as client:
        yield client
    for service in parts.services:
        service.stop()


@pytest.mark.slow
def test_every_answer_is_documented_and_none_is_an_internal_error(clients: Any) -> None:
    document = clients.get("/openapi.json").json()
    operations = [
        (path, method, {int(status) for status in operation["responses"]})
        for path, under in document["paths"].items()
        for method, operation in under.items()
        if method in METHODS
    ]

    @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
    @given(st.sampled_from(operations), words, words, bodies, st.sampled_from(KINDS), st.dictionaries(words, words))
    def check(
        operation: tuple[str, str, set[int]], tenant: str, model: str, body: bytes, kind: str, query: dict[str, str]
    ) -> None:
        path, method, documented = operation
        filled = path.replace("{tenant}", _quoted(tenant)).replace("{model}", _quoted(model))
        sent = {"content": body, "headers": {"content-type": kind}} if method == "post" else {}
        answer = clients.request(method, filled, params=_sendable(query), follow_redirects=False, **sent)
        elsewhere = {404, 405}  # a name with a slash is another address
        assert answer.status_code in documented | elsewhere, (filled, answer.text)
        if answer.headers["content-type"] == "application/json":
            json.loads(answer.text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))

    check()


def _quoted(name: str) -> str:
    return quote(name.encode("utf-8", "replace"), safe="") or "_"


def _sendable(query: dict[str, str]) -> dict[str, str]:
    return {
        name.encode("utf-8", "replace").decode(): text.encode("utf-8", "replace").decode()
        for name, text in query.items()
    }
