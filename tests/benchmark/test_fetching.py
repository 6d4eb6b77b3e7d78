"""Downloads from a server on this machine: resumed, checked, unpacked, and refused where they are not as published."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.benchmark import fetching
from holdfast.benchmark.fetching import fetch
from holdfast.cli.commands import app
from holdfast.options.sources import SOURCES, Archive, Supply

pytest.importorskip("pooch")


def tape(**files: bytes) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as packed:
        for name, data in files.items():
            entry = tarfile.TarInfo(name.replace("__", "/"))
            entry.size = len(data)
            packed.addfile(entry, io.BytesIO(data))
    return content.getvalue()


class Server(ThreadingHTTPServer):
    """Serves files from memory with ranges; closes the connection after `limit` bytes of an answer."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.asked: list[str | None] = []
        self.limit: int | None = None
        self.ranges = True

    def archive(self, name: str, content: bytes, checksum: str | None = None) -> Archive:
        self.files[f"/{name}"] = content
        digest = checksum or f"sha256:{hashlib.sha256(content).hexdigest()}"
        return Archive(f"http://127.0.0.1:{self.server_port}/{name}", digest)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        content, wanted = self.server.files[self.path], self.headers["Range"]
        self.server.asked.append(wanted)
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and self.server.ranges else 0
        if start and start >= len(content):
            self.send_response(416)
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        stop = None if self.server.limit is None else start + self.server.limit
        self.wfile.write(content[start:stop])

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        """Print nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_an_archive_is_downloaded_checked_and_unpacked(server: Server, tmp_path: Path) -> None:
    progress: list[tuple[str, int, int | None]] = []
    content = tape(Set__fog__1=b"image", Set__labels=b"0")
    folder = fetch(
        [server.archive("set.tar.gz", content)], tmp_path / "data/Mine", lambda *report: progress.append(report)
    )
    assert folder == tmp_path / "data/Mine"
    assert (folder / "fog/1").read_bytes() == b"image"  # the one folder of the archive is the folder
    assert progress[-1] == ("set.tar.gz", len(content), len(content))
    assert [path.name for path in folder.parent.iterdir()] == ["Mine"]  # no download is left


def test_several_archives_share_a_folder(server: Server, tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("blur/a", b"2")
    archives = [server.archive("noise.tar", tape(noise__a=b"1")), server.archive("blur.zip", packed.getvalue())]
    folder = fetch(archives, tmp_path / "all")
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("a")} == {"noise/a", "blur/a"}


@pytest.mark.parametrize("ranges", [True, False])
def test_an_interrupted_download_is_resumed(
    server: Server, tmp_path: Path, ranges: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "CHUNK", 64)
    content = tape(Set__a=bytes(range(256)) * 40)
    archive = server.archive("set.tar.gz", content)
    server.limit, server.ranges = 128, ranges
    with pytest.raises(ValueError, match=r"cannot be downloaded .*; the same command resumes it"):
        fetch([archive], tmp_path / "Set")
    assert not (tmp_path / "Set").exists()
    server.limit = None
    fetch([archive], tmp_path / "Set")
    assert (tmp_path / "Set/a").stat().st_size == 256 * 40
    assert server.asked == [None, "bytes=128-"]


def test_another_file_than_the_published_one_is_refused(server: Server, tmp_path: Path) -> None:
    archive = server.archive("set.tar.gz", tape(a=b"1"), "md5:" + "0" * 32)
    with pytest.raises(ValueError, match="is not the published file"):
        fetch([archive], tmp_path / "Set")
    assert not (tmp_path / "Set").exists()
    good = server.archive("set.tar.gz", tape(Set__a=b"1"))
    assert (fetch([good], tmp_path / "Set") / "a").read_bytes() == b"1"  # nothing of the wrong one was kept


def test_members_outside_of_the_folder_are_refused(server: Server, tmp_path: Path) -> None:
    archive = server.archive("set.tar.gz", tape(**{"..__..__..__evil": b"1"}))
    with pytest.raises(tarfile.FilterError):
        fetch([archive], tmp_path / "a/b/Set")
    assert not list(tmp_path.rglob("evil"))


def test_the_command_fetches_what_is_free_and_prints_the_address_of_the_rest(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    archive = server.archive("imagenet-r.tar", tape(**{"imagenet-r__n01443537__art_1.jpg": b"1"}))
    free = Supply(archive.address, licence="MIT", archives=(archive,))
    monkeypatch.setitem(SOURCES, "imagenet_r", free)
    suite = tmp_path / "mine.yaml"
    suite.write_text(
        "name: mine\nmodels: [digits_resnet]\nrecipes: [source]\nstreams:\n"
        "- {name: continual, label: r, corruptions: [clean], data: {name: imagenet_r, folder: data/imagenet-r}}\n"
        "- {name: continual, label: s, corruptions: [clean], data: {name: imagenet_sketch, folder: data/sketch}}\n"
    )
    shown = CliRunner().invoke(app, ["prepare", str(suite), "--no-measure", "--fetch"])
    assert shown.exit_code == 0, shown.output
    assert (tmp_path / "data/imagenet-r/n01443537/art_1.jpg").exists()
    assert "fetched data/imagenet-r (MIT)" in shown.output
    assert "2 things needed, 1 missing" in shown.output
    assert "https://github.com/HaohanWang/ImageNet-Sketch" in shown.output


def test_every_source_that_is_fetched_has_a_licence_and_checksums() -> None:
    fetched = [source for source in SOURCES.values() if source.archives]
    assert len({source.address for source in fetched}) == 6
    for source in fetched:
        assert source.licence
        for archive in source.archives:
            kind, _, digest = archive.checksum.partition(":")
            assert len(digest) == {"md5": 32, "sha256": 64}[kind]
            assert archive.name.endswith((".tar", ".tar.gz"))
