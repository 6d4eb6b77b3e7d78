"""The live page in a real browser: a collapse, its alarm and its reset appear, and freezing stops every change."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from holdfast.data import DATASETS
from holdfast.models import load
from holdfast.serve.service import Service
from holdfast.serve.tenants import Tenants
from tests.serve.conftest import listening, wait_until

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-sync --disable-background-networking "
    "--disable-component-update --disable-quic --window-size=420,900 --remote-debugging-port=0"
)


@contextmanager
def opened(url: str, folder: Path) -> Iterator[Callable[[str], Any]]:
    """Open a page, and yield a function that evaluates JavaScript in it."""
    from websockets.sync.client import connect

    command = [str(BROWSER), *QUIET.split(), f"--user-data-dir={folder}", url]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        port_file = folder / "DevToolsActivePort"
        wait_until(lambda: port_file.is_file() and port_file.read_text().count("\n"))
        port = port_file.read_text().split()[0]

        def page() -> str | None:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
                pages = json.loads(answer.read())
            return next((one["webSocketDebuggerUrl"] for one in pages if one["url"].startswith(url)), None)

        with connect(wait_until(page), proxy=None) as socket:
            asked = iter(range(1, 10_000))

            def call(method: str, **parameters: Any) -> Any:
                number = next(asked)
                socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
                while True:
                    message = json.loads(socket.recv(timeout=60))
                    if message.get("id") == number:
                        return message["result"]

            call("Page.navigate", url=url)

            def evaluate(script: str) -> Any:
                result = call("Runtime.evaluate", expression=script, returnByValue=True)
                assert "exceptionDetails" not in result, result
                return result["result"].get("value")

            yield evaluate
    finally:
        process.terminate()
        process.wait()


@pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome on this machine")
def test_a_collapse_its_alarm_and_a_freeze_are_seen_in_a_browser(tmp_path: Path) -> None:
    tenants = Tenants(load("digits_resnet"), "tent", options={"lr": 0.5}, gate_every=0, folder=tmp_path / "state")
    service = Service(tenants, batch=16, wait=0.0)
    inputs = np.asarray(DATASETS["digits"](split="test").inputs(np.arange(64)), np.float32) / 255
    if inputs.shape[-1] == 3:
        inputs = inputs.transpose(0, 3, 1, 2)
    with listening(service) as url, httpx.Client(base_url=url, timeout=60, trust_env=False) as client:

        def send(start: int) -> None:
            body = json.dumps({"inputs": inputs[start : start + 16].tolist()})
            headers = {"content-type": "application/json", "X-Tenant": "north"}
            assert client.post("/v1/predict", content=body, headers=headers).status_code == 200

        with opened(url, tmp_path / "profile") as look:
            wait_until(lambda: look("document.readyState === 'complete' && location.pathname === '/'"))
            wait_until(lambda: look("document.getElementById('waiting').hidden === false"))
            for start in range(0, 48, 16):
                send(start)
            wait_until(lambda: look("document.querySelector('#events .alarm') !== null"))
            wait_until(lambda: look("document.querySelector('#events .reset') !== null"))
            wait_until(lambda: look("document.querySelectorAll('#chart .mark').length >= 2"))
            assert look("document.querySelectorAll('#chart polyline').length") == 2
            assert look("document.getElementById('gain').textContent")[0] in "+−"
            assert look("document.documentElement.scrollWidth <= innerWidth"), "the page is wider than a phone"
            look("document.getElementById('freeze').click()")
            wait_until(lambda: look("document.getElementById('learning').textContent").startswith("· frozen"))
            digest = look("document.getElementById('digest').textContent")
            assert len(digest) == 12
            send(48)
            wait_until(lambda: look("document.getElementById('batches').textContent") == "4")
            assert look("document.getElementById('digest').textContent") == digest
            outside = "performance.getEntriesByType('resource').every(one => one.name.startsWith(location.origin))"
            assert look(outside), "the page asked someone else"
            assert look("document.getElementById('problem').textContent") == ""
