"""Attacks over loopback, each of bounded size: one client never stops the service for the others."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import resource
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient

from holdfast.model.adapted import AdaptedModel
from holdfast.models.tiny import tiny_amaut
from holdfast.records import InputSpec
from holdfast.serve.app import create_app
from holdfast.serve.bodies import Decoder
from holdfast.serve.build import build_service
from holdfast.serve.connections import files_left
from holdfast.serve.inference_protocol import read_inference
from holdfast.serve.limits import Limits, RefusedError
from holdfast.serve.service import Service
from holdfast.serve.tenants import Tenants
from tests.serve.bodies import NPY, npy, png
from tests.serve.conftest import batches, listening, make_service, network, wait_until

SENT: dict[str, Any] = {"content": npy(batches(1)[0].numpy()), "headers": NPY}
HEALTHY_SECONDS = 0.1 if sys.gettrace() is None else 0.5  # tracing for coverage slows all of it down


def address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return str(parts.hostname), int(parts.port or 0)


@contextmanager
def at_most_files(count: int) -> Iterator[None]:
    """Allow this process so many open files, as `ulimit -n` does."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_idle_connections_make_room_for_others(tmp_path: Path) -> None:
    service = make_service(tmp_path, guarded=False, limits=Limits(connections=8), active=1)
    with listening(service) as url, ExitStack() as opened, httpx.Client(base_url=url, trust_env=False) as client:
        assert client.post("/v1/tenants/north/predict", **SENT).status_code == 200
        for _ in range(40):
            opened.enter_context(socket.create_connection(address(url)))
        for tenant in ("north", "south", "north"):
            with httpx.Client(base_url=url, trust_env=False) as another:
                assert another.post(f"/v1/tenants/{tenant}/predict", **SENT).status_code == 200
        assert service.tenants.status("north").batches == 3
    assert not list(tmp_path.glob("*.damaged"))


@pytest.mark.parametrize("way", ["bodies that do not end", "replies that are not read"])
def test_clients_that_keep_every_connection_waiting_make_room_for_others(way: str) -> None:
    service = make_service(guarded=False, limits=Limits(connections=8))
    with listening(service) as url, ExitStack() as opened:
        host = f"Host: {urlsplit(url).netloc}\r\n"
        half = f"POST /v1/predict HTTP/1.1\r\n{host}Content-Length: 100\r\n\r\nx"
        many = f"GET /openapi.json HTTP/1.1\r\n{host}\r\n" * 200
        for _ in range(12):
            slow = opened.enter_context(socket.socket())
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect(address(url))
            slow.sendall((half if way.startswith("bodies") else many).encode())
        for _ in range(3):  # refused only while all are really served
            wait_until(
                lambda: httpx.post(f"{url}/v1/predict", **SENT, trust_env=False, timeout=60).status_code == 200, 60
            )


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_many_connections_at_once_leave_files_for_states() -> None:
    service = make_service(guarded=False)
    used = len(os.listdir("/proc/self/fd"))
    with at_most_files(used + 128 + 64 + 20):  # what a service needs, and 20 connections
        assert files_left() >= 20
        with listening(service) as url:
            attack = f"""
import resource, socket, time
resource.setrlimit(resource.RLIMIT_NOFILE, (2048, max(2048, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
connections = [socket.socket() for _ in range(500)]
for one in connections:
    one.setblocking(False)
    one.connect_ex({address(url)!r})
time.sleep(3)
"""
            most = used
            with subprocess.Popen([sys.executable, "-c", attack]) as attacker:
                while attacker.poll() is None:
                    most = max(most, len(os.listdir("/proc/self/fd")))
                    time.sleep(0.001)
            with httpx.Client(base_url=url, trust_env=False, timeout=30) as another:
                assert another.post("/v1/predict", **SENT).status_code == 200
    assert most < used + 20 + 64 + 20


def test_half_sent_heads_are_closed_in_time_however_slowly_they_drip() -> None:
    service = make_service(guarded=False, limits=Limits(head_seconds=0.5))
    with listening(service) as url:
        with socket.create_connection(address(url)) as silent, socket.create_connection(address(url)) as dripping:
            end = time.monotonic() + 10
            closed = False
            while not closed and time.monotonic() < end:
                try:
                    dripping.sendall(b"G")
                except OSError:
                    closed = True
                time.sleep(0.1)
            assert closed, "a byte now and then keeps no connection open"
            silent.settimeout(10)
            with suppress(ConnectionResetError):
                assert silent.recv(1) == b""
        with socket.create_connection(address(url)) as second:  # a half-sent second head after a whole first one
            second.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            second.settimeout(10)
            assert b" 200 " in second.recv(4096)
            second.sendall(b"GET /hea")
            with suppress(ConnectionResetError):
                while second.recv(4096):
                    pass


def test_states_that_cannot_be_opened_are_not_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tenants = Tenants(network(), "tent", guarded=False, folder=tmp_path, active=1)
    for name in ("north", "south"):
        tenants.step(name, batches(1)[0])
    tenants.close()
    again = Tenants(network(), "tent", guarded=False, folder=tmp_path, active=1)
    digest = again.status("north").digest

    for number in (errno.EMFILE, errno.EIO, errno.EACCES):

        def unreadable(*_: Any, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        with monkeypatch.context() as patched:
            patched.setattr(AdaptedModel, "load", unreadable)
            with pytest.raises(RefusedError, match=r"cannot be read now .*try again") as refused:
                again.step("north", batches(1)[0])
            assert refused.value.status == 503
    again.close()
    assert sorted(path.name for path in tmp_path.glob("*.*s")) == ["north.safetensors", "south.safetensors"]
    more = Tenants(network(), "tent", guarded=False, folder=tmp_path)
    assert more.status("north").digest == digest
    more.step("north", batches(1)[0])
    assert more.status("north").batches == 2
    more.close()


def test_a_process_without_file_descriptors_keeps_its_states(tmp_path: Path) -> None:
    tenants = Tenants(network(), "tent", guarded=False, folder=tmp_path, active=1)
    for name in ("north", "south"):
        tenants.step(name, batches(1)[0])
    used = len(os.listdir("/proc/self/fd"))
    with at_most_files(used + 4), ExitStack() as opened:
        with suppress(OSError):
            while True:
                opened.enter_context(Path("/dev/null").open())
        with pytest.raises(RefusedError, match="Too many open files"):
            tenants.step("north", batches(1)[0])
    assert tenants.step("north", batches(1)[0]).logits.shape == (4, 10)
    assert tenants.status("north").batches == 2
    tenants.close()
    assert not list(tmp_path.glob("*.damaged"))


def hostile_bodies() -> dict[str, tuple[bytes, str]]:
    large = png(np.zeros((4096, 4096, 3), np.uint8))
    part = b"--a\r\nContent-Type: image/png\r\n\r\n" + large + b"\r\n"
    rows = np.random.default_rng(0).random((250, 3, 32, 32), np.float32)
    return {
        "tiny rows": (b"[" + b"[1]," * 3_900_000 + b"[1]]", "application/json"),
        "the largest batch": (json.dumps(rows.tolist()).encode()[: 15 * 10**6], "application/json"),
        "one row": (b"[" + b"1," * 700_000 + b"1]", "application/json"),
        "spaces": (b"[" + b" " * 15 * 10**6 + b"]", "application/json"),
        "escapes": (b'{"inputs": "' + b"\\u0041" * 2_500_000 + b'"}', "application/json"),
        "brackets": (b"[" * 15 * 10**6, "application/json"),
        "digits": (b"[" + b"1" * 15 * 10**6 + b"]", "application/json"),
        "large images": (part * 12 + b"--a--", "multipart/form-data; boundary=a"),
        "npy": (npy(np.zeros((256, 3, 32, 32))), "application/x-npy"),
    }


def slowest_health(url: str, attackers: list[threading.Thread]) -> float:
    """Return the longest time that /healthz takes while attackers work."""
    taken = [0.0]
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        client.get("/healthz")
        for thread in attackers:
            thread.start()
        while any(thread.is_alive() for thread in attackers):
            start = time.perf_counter()
            assert client.get("/healthz").status_code == 200
            taken.append(time.perf_counter() - start)
            time.sleep(0.01)  # decoders share the interpreter with this thread
    return max(taken)


def spin(seconds: float = 0.5) -> None:
    """Use the interpreter, as any busy thread does."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def delay(url: str, attackers: Callable[[], list[threading.Thread]]) -> float:
    """Return how much longer /healthz takes under an attack than beside threads that are merely busy.

    It is the least of three: the machine may be busy, and attackers share the interpreter.
    """
    least = math.inf
    for _ in range(3):
        busy = slowest_health(url, [threading.Thread(target=spin) for _ in attackers()])
        least = min(least, slowest_health(url, attackers()) - busy)
        if least < HEALTHY_SECONDS:
            break
    return least


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if index % 4 else []) for index, name in enumerate(hostile_bodies())],
)
def test_health_is_answered_while_hostile_bodies_are_decoded(name: str) -> None:
    body, kind = hostile_bodies()[name]
    statuses: list[int] = []
    with listening(make_service(guarded=False, method="source")) as url:

        def attack() -> None:
            sent = httpx.post(
                f"{url}/v1/predict", content=body, headers={"content-type": kind}, trust_env=False, timeout=60
            )
            statuses.append(sent.status_code)

        delayed = delay(url, lambda: [threading.Thread(target=attack) for _ in range(2)])
    assert set(statuses) <= {200, 413, 422}
    assert delayed < HEALTHY_SECONDS


def test_a_long_recording_stalls_nobody() -> None:
    soundfile = pytest.importorskip("soundfile")
    file = io.BytesIO()
    soundfile.write(file, np.zeros((48_000 * 50, 2), np.float32), 48_000, format="FLAC")
    assert len(file.getvalue()) < 256 * 1024
    with listening(Service(Tenants(tiny_amaut(), "source", guarded=False), wait=0.0)) as url:
        statuses: list[int] = []

        def attack() -> None:
            body, headers = file.getvalue(), {"content-type": "audio/flac"}
            statuses.append(httpx.post(f"{url}/v1/predict", content=body, headers=headers, trust_env=False).status_code)

        delayed = delay(url, lambda: [threading.Thread(target=attack)])
    assert set(statuses) == {200}
    assert delayed < HEALTHY_SECONDS


def test_bodies_that_wait_to_be_decoded_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.serve.decoding.AT_ONCE", 0)
    service = make_service(guarded=False, limits=Limits(decoding=1))
    hold, entered, decode = threading.Event(), threading.Event(), service.decoding.decoder.decode

    def slow(body: bytes, kind: str) -> torch.Tensor:
        entered.set()
        hold.wait(60)
        return decode(body, kind)

    monkeypatch.setattr(service.decoding.decoder, "decode", slow)
    with listening(service) as url:
        first: list[int] = []
        thread = threading.Thread(
            target=lambda: first.append(
                httpx.post(f"{url}/v1/predict", trust_env=False, timeout=60, **SENT).status_code
            )
        )
        thread.start()
        assert entered.wait(60)
        answer = httpx.post(f"{url}/v1/predict", trust_env=False, timeout=60, **SENT)
        assert (answer.status_code, "decoded" in answer.json()["error"]) == (503, True)
        hold.set()
        thread.join()
    assert first == [200]


@pytest.mark.parametrize("guarded", [False, True])
def test_inputs_that_overflow_are_refused_and_no_answer_holds_nan(guarded: bool) -> None:
    def strict(text: str) -> Any:
        return json.loads(text, parse_constant=lambda constant: pytest.fail(f"{constant} is not JSON"))

    huge = npy(np.full((2, 3, 32, 32), 3e38, np.float32))
    with TestClient(create_app(make_service(guarded=guarded))) as client:
        for _ in range(2):
            answer = client.post("/v1/predict?logits=1", content=huge, headers=NPY)
            assert (answer.status_code, "not finite" in strict(answer.text)["error"]) == (422, True), answer.text
        good = strict(client.post("/v1/predict?logits=1", **SENT).text)
        assert all(math.isfinite(value) for row in good["logits"] for value in row)
        for path in ("/v1/status", "/v1/history", "/v1/tenants/default/status"):
            assert client.get(path).status_code == 200
            strict(client.get(path).text)


def test_states_and_logs_are_private(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o755)
    before = os.umask(0o022)
    try:
        for _ in range(2):
            with TestClient(create_app(make_service(folder, store_inputs=True))) as client:
                client.post("/v1/predict", **SENT)
                client.post("/v1/freeze")
                wait_until(lambda: list(folder.glob("inputs/*/*")))
                modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*"))}
                for path, mode in modes.items():
                    assert mode == (0o700 if path.is_dir() else 0o600), path
    finally:
        os.umask(before)
    assert {"audit.db", "default.safetensors", "service.json"} <= {path.name for path in modes}


@pytest.mark.parametrize("host", ["evil@127.0.0.1", "127.0.0.1@evil", "127.0.0.1/x", "127.0.0.1:8:9", "127.0.0.1#", ""])
def test_hosts_with_anything_before_or_after_the_name_are_refused(host: str) -> None:
    with TestClient(create_app(make_service(), hosts=("127.0.0.1",)), base_url="http://127.0.0.1:8000") as client:
        assert client.get("/v1/status", headers={"Host": host}).status_code == 421
        assert client.get("/v1/status", headers={"Host": "127.0.0.1:1234"}).status_code == 200


def test_headers_that_decide_are_taken_once() -> None:
    token = "a-token-of-sixteen-characters"
    good = ("Authorization", f"Bearer {token}")
    with TestClient(create_app(make_service(), token=token)) as client:
        for wrong in (("Authorization", "Bearer x"), good):
            for pair in ([good, wrong], [wrong, good]):
                assert client.get("/v1/status", headers=pair).status_code == 400
        assert client.get("/v1/status", headers=[good, ("X-Tenant", "a"), ("X-Tenant", "b")]).status_code == 400
        assert client.get("/v1/status", headers=[good]).status_code == 200


@pytest.mark.parametrize("side", ["1e999", "-1e999", "NaN", "1e300", "9" * 400, "9" * 5000, "null", "{}"])
def test_no_number_of_a_shape_is_an_internal_error(client: Any, side: str) -> None:
    body = f'{{"inputs": [{{"name": "inputs", "datatype": "FP32", "shape": [{side}, 3], "data": [0.5]}}]}}'
    answer = client.post("/v2/models/model/infer", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code in (400, 422), list(answer.json())) == (True, ["error"])


def test_numbers_that_do_not_fit_their_datatype_are_refused_and_not_wrapped() -> None:
    decoder = Decoder(InputSpec("other", (2,)), Limits(), dtype=torch.int64)

    def body(datatype: str, *values: int) -> bytes:
        return json.dumps(
            {"inputs": [{"name": "inputs", "datatype": datatype, "shape": [1, 2], "data": values}]}
        ).encode()

    assert read_inference(body("UINT8", 0, 255), None, decoder).values.tolist() == [[0, 255]]
    for datatype, value in (("UINT8", 300), ("UINT8", -1), ("INT16", 40_000)):
        with pytest.raises(RefusedError, match="do not fit"):
            read_inference(body(datatype, 0, value), None, decoder)


def test_a_client_that_leaves_in_the_middle_of_a_body_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    service = make_service(guarded=False)
    with listening(service) as url, httpx.Client(base_url=url, trust_env=False) as client:
        head = f"POST /v1/predict HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\nContent-Length: 100\r\n\r\n"
        with socket.create_connection(address(url)) as leaving:
            leaving.sendall(head.encode() + b"x" * 10)
            time.sleep(0.2)
        wait_until(lambda: 'path="/v1/predict"' in client.get("/metrics").text)
    assert "a request failed" not in caplog.text


def test_an_address_with_a_slash_more_is_refused_and_not_sent_elsewhere(client: Any) -> None:
    answer = client.get("/v2/models/model/", follow_redirects=False)
    assert (answer.status_code, list(answer.json())) == (404, ["error"])


def test_a_folder_with_files_of_others_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    theirs = tmp_path / "lost+found"
    theirs.mkdir()
    change = Path.chmod

    def chmod(path: Path, mode: int, **options: Any) -> None:
        if path == theirs:
            raise PermissionError(errno.EPERM, "Operation not permitted")
        change(path, mode, **options)

    monkeypatch.setattr(Path, "chmod", chmod)
    tenants = Tenants(network(), "tent", folder=tmp_path)
    tenants.step("north", batches(1)[0])
    tenants.close()
    assert "lost+found cannot be made private" in caplog.text
    assert stat.S_IMODE((tmp_path / "north.safetensors").stat().st_mode) == 0o600


def test_a_damaged_note_on_the_options_before_does_not_hinder_the_start(tmp_path: Path) -> None:
    tiny = {"model": "imported:holdfast.models.tiny:tiny_resnet", "method": "source", "guarded": False}
    for content in ("{", "[1]", "null", "[" * 10_000):
        (tmp_path / "building.json").write_text(content)
        service = build_service({**tiny, "memory_format": "contiguous"}, folder=tmp_path, limits=Limits())
        service.tenants.close()
        assert json.loads((tmp_path / "building.json").read_text())["method"] == "source"


def test_inputs_take_no_room_from_the_log_while_the_disk_is_full(tmp_path: Path) -> None:
    service = make_service(tmp_path, guarded=False, store_inputs=True)
    with TestClient(create_app(service)) as client:
        assert client.post("/v1/predict", **SENT).status_code == 200
        wait_until(lambda: len(list((tmp_path / "inputs").rglob("*.npy"))) == 1)
        service.tenants.disk.stall("the disk is full")
        assert client.post("/v1/predict", **SENT).status_code == 200
        assert client.get("/v1/status").json()["tenants"]["default"]["batches"] == 2
        history = wait_until(lambda: [one for one in client.get("/v1/history").json() if one["batch"] == 1])
    assert history[0]["inputs"] == ""
    assert len(list((tmp_path / "inputs").rglob("*.npy"))) == 1


def test_bodies_under_way_are_limited_together_and_give_their_room_back() -> None:
    size = len(SENT["content"])
    service = make_service(guarded=False, limits=Limits(body_bytes=2 * size, bodies_bytes=2 * size))
    head = "POST /v1/predict HTTP/1.1\r\nHost: {}\r\nContent-Type: application/x-npy\r\nContent-Length: {}\r\n\r\n"
    with listening(service) as url, httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        with ExitStack() as opened:
            for _ in range(2):  # each sends all but the last byte, and waits
                slow = opened.enter_context(socket.create_connection(address(url)))
                slow.sendall(head.format(urlsplit(url).netloc, size).encode() + SENT["content"][:-1])

            def refused() -> bool:
                answer = client.post("/v1/predict", **SENT)
                return answer.status_code == 503 and "bodies under way" in answer.json()["error"]

            wait_until(refused)
            assert client.get("/healthz").status_code == 200
        wait_until(lambda: client.post("/v1/predict", **SENT).status_code == 200)
