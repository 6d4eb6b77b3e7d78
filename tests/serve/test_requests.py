"""What HTTP allows and clients rarely send: each is taken as it is meant, or refused in one sentence."""

from __future__ import annotations

import gzip
import json
import socket
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest

from holdfast.serve.batching import Worker
from holdfast.serve.limits import Limits
from tests.serve.bodies import NPY, npy
from tests.serve.conftest import batches, listening, make_service

IMAGES = batches(1)[0].numpy()
SENT: dict[str, Any] = {"content": npy(IMAGES), "headers": NPY}


def test_head_is_answered_as_get_without_a_body_and_other_methods_are_named(client: Any) -> None:
    for path in ("/healthz", "/readyz", "/", "/v2/health/ready", "/metrics"):
        head, whole = client.head(path), client.get(path)
        assert (head.status_code, head.headers["content-type"]) == (200, whole.headers["content-type"])
    refused = client.request("OPTIONS", "/v1/predict")
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
    assert client.head("/v1/predict").status_code == 405


def test_a_head_on_a_connection_that_goes_on_has_no_body() -> None:
    with (
        listening(make_service(guarded=False)) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=60) as client,
    ):
        for _ in range(2):
            assert (client.head("/healthz").content, client.get("/healthz").json()) == (b"", {"status": "ok"})


def test_pipelined_chunked_and_announced_bodies_are_predicted_in_order() -> None:
    with listening(make_service(guarded=False)) as url:
        parts = urlsplit(url)
        head = f"POST /v1/predict HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/x-npy\r\n"
        body = npy(IMAGES)
        pieces = [body[start : start + 1000] for start in range(0, len(body), 1000)]
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (*pieces, b""))
        length = f"Content-Length: {len(body)}\r\n"
        requests = [
            f"{head}{length}\r\n".encode() + body,
            f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunks,
            f"{head}{length}Expect: 100-continue\r\nConnection: close\r\n\r\n".encode() + body,
        ]
        answer = b""
        with socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=30) as sending:
            sending.sendall(b"".join(requests))
            while received := sending.recv(65536):
                answer += received
    assert [answer.count(f'"batch": {batch},'.encode()) for batch in range(3)] == [1, 1, 1]
    assert answer.index(b'"batch": 0') < answer.index(b'"batch": 1') < answer.index(b'"batch": 2')


def test_a_compressed_body_is_refused_by_its_name(client: Any) -> None:
    sent = client.post("/v1/predict", content=gzip.compress(npy(IMAGES)), headers={**NPY, "Content-Encoding": "gzip"})
    assert (sent.status_code, "Content-Encoding" in sent.json()["error"]) == (415, True)
    label = client.post("/v1/feedback", content=gzip.compress(b"{}"), headers={"Content-Encoding": "br"})
    assert label.status_code == 415
    plain = client.post("/v1/predict", content=npy(IMAGES), headers={**NPY, "Content-Encoding": "identity"})
    assert plain.status_code == 200


@pytest.mark.parametrize(
    ("path", "header", "body"),
    [
        ("/v1/tenants/north/reset", "south", {}),
        ("/v1/tenants/north/reset", "north", {"tenant": "south"}),
        ("/v1/tenants/north/reset?tenant=south", None, {}),
        ("/v1/reset?tenant=north&tenant=south", None, {}),
        ("/v1/reset", "north", {"tenant": "south"}),
    ],
)
def test_a_request_that_names_two_tenants_reaches_neither(client: Any, path: str, header: Any, body: Any) -> None:
    for tenant in ("north", "south"):
        client.post(f"/v1/tenants/{tenant}/predict", **SENT)
    before = client.get("/v1/status").json()["tenants"]
    answer = client.post(path, json=body, headers={} if header is None else {"X-Tenant": header})
    assert (answer.status_code, "two tenants" in answer.json()["error"]) == (422, True)
    after = client.get("/v1/status").json()["tenants"]
    assert {name: one["digest"] for name, one in after.items()} == {name: one["digest"] for name, one in before.items()}
    agreeing = client.post(
        "/v1/tenants/north/reset?tenant=north", json={"tenant": "north"}, headers={"X-Tenant": "north"}
    )
    assert agreeing.status_code == 200


@pytest.mark.parametrize("word", ["true", "false"])
def test_words_are_no_numbers_of_an_array(client: Any, word: str) -> None:
    numbers = str(IMAGES[0].tolist())
    assert client.post("/v1/predict", content=f'{{"inputs": {numbers}}}').status_code == 200
    mixed = numbers.replace(numbers[3 : numbers.index(",")], word, 1)
    assert np.asarray(json.loads(mixed)).dtype.kind == "f"  # NumPy takes it
    assert client.post("/v1/predict", content=f'{{"inputs": {mixed}}}').status_code == 422


def test_limits_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="must be positive"):
        Limits(requests_per_second=float("nan"))
    for wait in (float("nan"), float("inf"), -1.0):
        with pytest.raises(ValueError, match="wait a time"):
            Worker(lambda *_: None, wait=wait)
