"""A network, batches, and a Hub of its own at a loopback address."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from holdfast.models.tiny import tiny_resnet


@pytest.fixture
def network() -> nn.Module:
    """Return a network whose weights are not those of `tiny_resnet()`."""
    network = tiny_resnet().eval()
    with torch.no_grad():
        network.fc.weight.mul_(2)
    return network


@pytest.fixture
def batches() -> Tensor:
    """Return four batches of eight images."""
    return torch.rand(4, 8, 3, 32, 32)


class LocalHub:
    """The repositories that clients pushed, by name; one commit each."""

    def __init__(self) -> None:
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.messages: list[str] = []
        self.tokens: set[str | None] = set()

    def commit(self, repository: str) -> str:
        """Return the digest of a repository, in the form of a commit."""
        files = self.repositories[repository]
        return hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()


@pytest.fixture
def local_hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    """Serve the addresses of the Hub that huggingface_hub uses to push and load small files."""
    hub = LocalHub()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def _answer(self, content: Any, status: int = 200, **headers: str) -> None:
            body = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def do_POST(self) -> None:
            hub.tokens.add(self.headers["Authorization"])
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            parts = self.path.strip("/").split("/")
            if parts[1:3] == ["repos", "create"]:
                asked = json.loads(body)
                name = f"{asked.get('organization') or 'me'}/{asked['name']}"
                hub.repositories.setdefault(name, {})
                hub.private[name] = asked.get("private") is True or asked.get("visibility") == "private"
                self._answer({"url": f"{address}/{name}"})
                return
            if parts[1] == "validate-yaml":
                self._answer({"errors": [], "warnings": []})
                return
            name = "/".join(parts[2:4])
            if parts[4] == "preupload":
                files = [{**file, "uploadMode": "regular", "shouldIgnore": False} for file in json.loads(body)["files"]]
                self._answer({"files": files})
                return
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "header":
                    hub.messages.append(line["value"]["summary"])
                elif line["key"] == "file":
                    content = base64.b64decode(line["value"]["content"])
                    hub.repositories[name][line["value"]["path"]] = content
            commit = hub.commit(name)
            self._answer({"commitUrl": f"{address}/{name}/commit/{commit}", "commitOid": commit})

        def do_GET(self) -> None:
            parts = self.path.partition("?")[0].strip("/").split("/")
            name = "/".join(parts[2:4] if parts[0] == "api" else parts[:2])
            if name not in hub.repositories:
                self._answer({"error": "Repository not found"}, 404, X_Error_Code="RepoNotFound")
                return
            files, commit = hub.repositories[name], hub.commit(name)
            if parts[0] == "api":
                siblings = [{"rfilename": file} for file in files]
                self._answer({"id": name, "sha": commit, "siblings": siblings, "private": False, "tags": []})
                return
            content = files[parts[4]]
            etag = hashlib.sha1(content).hexdigest()
            self._answer(content, ETag=f'"{etag}"', X_Repo_Commit=commit)

        do_HEAD = do_GET  # noqa: N815

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    address = f"http://127.0.0.1:{server.server_port}"
    constants = "huggingface_hub.constants"
    monkeypatch.setattr(f"{constants}.ENDPOINT", address)
    template = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(f"{constants}.HUGGINGFACE_CO_URL_TEMPLATE", template)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield hub
    server.shutdown()
    thread.join()
    server.server_close()
