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


class Handler(BaseHTTPRequestHandler):
    """The addresses of the Hub that huggingface_hub uses to push and load small files."""

    server: HubServer

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def _answer(self, content: Any, status: int = 200, **headers: str) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_POST(self) -> None:
        """Create a repository, or take a commit."""
        self.server.hub.tokens.add(self.headers["Authorization"])
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        kind, *parts = self.path.strip("/").split("/")[1:]
        if kind == "repos":
            self._answer(self._created(json.loads(body)))
        elif kind == "validate-yaml":
            self._answer({"errors": [], "warnings": []})
        elif parts[2] == "preupload":
            files = [{**file, "uploadMode": "regular", "shouldIgnore": False} for file in json.loads(body)["files"]]
            self._answer({"files": files})
        else:
            self._answer(self._committed("/".join(parts[:2]), [json.loads(line) for line in body.splitlines()]))

    def _created(self, asked: dict[str, Any]) -> dict[str, str]:
        name = f"{asked.get('organization') or 'me'}/{asked['name']}"
        self.server.hub.repositories.setdefault(name, {})
        self.server.hub.private[name] = asked.get("private") is True or asked.get("visibility") == "private"
        return {"url": f"{self.server.address}/{name}"}

    def _committed(self, name: str, lines: list[dict[str, Any]]) -> dict[str, str]:
        hub = self.server.hub
        hub.messages += [line["value"]["summary"] for line in lines if line["key"] == "header"]
        files = [line["value"] for line in lines if line["key"] == "file"]
        hub.repositories[name].update((file["path"], base64.b64decode(file["content"])) for file in files)
        commit = hub.commit(name)
        return {"commitUrl": f"{self.server.address}/{name}/commit/{commit}", "commitOid": commit}

    def do_GET(self) -> None:
        """Return a repository, its files, or one of them."""
        hub, parts = self.server.hub, self.path.partition("?")[0].strip("/").split("/")
        name = "/".join(parts[2:4] if parts[0] == "api" else parts[:2])
        if name not in hub.repositories:
            self._answer({"error": "Repository not found"}, 404, X_Error_Code="RepoNotFound")
            return
        files, commit = hub.repositories[name], hub.commit(name)
        digests = {path: hashlib.sha1(content).hexdigest() for path, content in files.items()}
        if "tree" in parts[:5]:
            sizes = {path: len(content) for path, content in files.items()}
            self._answer([{"type": "file", "path": path, "size": sizes[path], "oid": digests[path]} for path in files])
        elif parts[0] == "api":
            siblings = [{"rfilename": path} for path in files]
            self._answer({"id": name, "sha": commit, "siblings": siblings, "private": False, "tags": []})
        else:
            self._answer(files[parts[4]], ETag=f'"{digests[parts[4]]}"', X_Repo_Commit=commit)

    do_HEAD = do_GET  # noqa: N815


class HubServer(ThreadingHTTPServer):
    """A Hub at a loopback address."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.hub, self.address = LocalHub(), f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def local_hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    """Let huggingface_hub push to a Hub of our own, and load from it."""
    server = HubServer()
    constants = "huggingface_hub.constants"
    monkeypatch.setattr(f"{constants}.ENDPOINT", server.address)
    template = f"{server.address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(f"{constants}.HUGGINGFACE_CO_URL_TEMPLATE", template)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.hub
    server.shutdown()
    thread.join()
    server.server_close()
