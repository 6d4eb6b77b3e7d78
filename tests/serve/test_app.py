"""Every address of the service, the bodies it takes, and what it refuses."""

from __future__ import annotations

import io
import json
import pickle
import random
import sqlite3
import struct
import wave
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient

from holdfast import guard
from holdfast.models import load
from holdfast.models.tiny import tiny_amaut
from holdfast.serve.app import create_app
from holdfast.serve.audit import read_audit, verify_audit
from holdfast.serve.decision import Decision
from holdfast.serve.gate import check_address, read_token
from holdfast.serve.limits import Limits, Rate
from holdfast.serve.metrics import Metrics
from holdfast.serve.service import Service
from holdfast.serve.tenants import Tenants
from tests.serve.bodies import NPY, npy, png
from tests.serve.conftest import batches, make_service, network, wait_until

INPUTS = batches(3)


def test_predictions_are_those_of_the_library_and_carry_ids(client: Any) -> None:
    model = guard(network(), "tent", budget=1.0)
    for index, batch in enumerate(INPUTS):
        step = model.step(batch)
        sent = {"content": npy(batch.numpy()), "headers": {**NPY, "X-Tenant": "north"}}
        prediction = client.post("/v1/predict?logits=true", **sent).json()
        assert prediction["logits"] == step.logits.tolist()
        assert prediction["classes"] == step.logits.argmax(1).tolist()
        assert (prediction["tenant"], prediction["batch"], prediction["position"]) == ("north", index, 0)
        assert [name.partition("-")[0] for name in prediction["ids"]] == [f"north:{number}" for number in step.ids]
        assert prediction["wants_label"] == list(step.wants_label)
    status = client.get("/v1/status").json()
    assert status["tenants"]["north"]["digest"] == model.digest()


def test_every_body_of_one_image_gives_one_prediction(client: Any) -> None:
    pixels = (INPUTS[0, 0].permute(1, 2, 0).numpy() * 255).astype(np.uint8)
    values = (torch.from_numpy(pixels).permute(2, 0, 1).float() / 255).numpy()
    bodies = {
        "json": {"json": {"inputs": values.tolist()}},
        "array": {"json": values.tolist()},
        "npy": {"content": npy(values), "headers": NPY},
        "fortran": {"content": npy(np.asfortranarray(values.astype(">f8"))), "headers": NPY},
        "png": {"content": png(pixels), "headers": {"content-type": "image/png"}},
        "form": {"files": {"a": ("a.png", png(pixels), "image/png")}},
    }
    by_body = {}
    for name, sent in bodies.items():
        answer = client.post(f"/v1/tenants/{name}/predict?logits=1", **sent)
        assert answer.status_code == 200, answer.text
        by_body[name] = answer.json()["logits"]
    for name, logits in by_body.items():
        assert np.allclose(logits, by_body["npy"], atol=1e-5), name
    jpeg = client.post("/v1/predict", content=png(pixels, "JPEG"), headers={"content-type": "image/jpeg"})
    assert len(jpeg.json()["classes"]) == 1
    several = client.post("/v1/predict", files=[("a", (f"{n}.png", png(pixels), "image/png")) for n in range(3)])
    assert len(several.json()["classes"]) == 3


def test_audio_is_decoded_resampled_and_cut() -> None:
    pytest.importorskip("soundfile")
    import soundfile

    torch.manual_seed(0)
    example = torch.rand(2, 1, 16000)
    model = tiny_amaut()
    spec = guard(model, "auto").method.model.input_spec
    assert spec.kind == "audio", spec
    tone = np.sin(np.arange(4000) / 9).astype(np.float32) / 2
    wav, flac = io.BytesIO(), io.BytesIO()
    with wave.open(wav, "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes((tone * 32767).astype("<i2").tobytes())
    soundfile.write(flac, tone, 8000, format="FLAC")
    service = Service(Tenants(model, "auto"), limits=Limits(audio_seconds=1.0), wait=0.0)
    with TestClient(create_app(service)) as client:
        for body, kind in ((wav, "audio/wav"), (flac, "audio/flac")):
            answer = client.post("/v1/predict", content=body.getvalue(), headers={"content-type": kind})
            assert answer.status_code == 200, answer.text
        long = io.BytesIO()
        soundfile.write(long, np.tile(tone, 5), 8000, format="FLAC")
        answer = client.post("/v1/predict", content=long.getvalue(), headers={"content-type": "audio/flac"})
        assert answer.status_code == 413
    assert example.shape[-1] == 16000


def test_labels_come_back_by_id_and_count_once(client: Any) -> None:
    prediction = client.post("/v1/predict", content=npy(INPUTS[0].numpy()), headers=NPY).json()
    for sample_id, label in zip(prediction["ids"], prediction["classes"], strict=True):
        assert client.post("/v1/feedback", json={"id": sample_id, "label": label}).json() == {"counts": True}
        assert client.post("/v1/feedback", json={"id": sample_id, "label": label}).json() == {"counts": False}
    bounds = client.get("/v1/status", headers={"X-Tenant": "default"}).json()["bounds"]
    assert 0 <= bounds["accuracy"][0] <= bounds["accuracy"][1] <= 1
    assert client.service.tenants.model.audit.waiting == []
    refused = [{"id": "default:99", "label": 1}, {"id": "default:-", "label": 1}, {"id": "nobody:0", "label": 1}]
    refused += [
        {"id": prediction["ids"][0], "label": 10},
        {"id": prediction["ids"][0]},
        {"label": 1},
        {"id": 3, "label": True},
    ]
    for body in refused:
        assert client.post("/v1/feedback", json=body).status_code in (404, 422), body


def test_yes_or_no_comes_back_instead_of_a_label(client: Any) -> None:
    prediction = client.post("/v1/predict", content=npy(INPUTS[0].numpy()), headers=NPY).json()
    for sample, correct in zip(prediction["ids"], (True, False, True, True), strict=True):
        sent = {"id": sample, "correct": correct}
        assert client.post("/v1/feedback", json=sent).json() == {"counts": True}
        assert client.post("/v1/feedback", json=sent).json() == {"counts": False}
    wrong: list[dict[str, Any]] = [{"correct": 1}, {"correct": None}, {"correct": True, "label": 3}, {"label": 3.0}, {}]
    for given in wrong:
        assert client.post("/v1/feedback", json={"id": prediction["ids"][0], **given}).status_code == 422, given
    answer = client.post("/v1/feedback", json={"id": prediction["ids"][0], "label": 99})
    assert answer.json() == {"error": "label must be a class from 0 to 9, or None, got 99"}
    bounds = client.get("/v1/tenants/default/status").json()["bounds"]["accuracy"]
    assert bounds[0] <= 0.75 <= bounds[1]


def test_reset_freeze_resume_and_export_by_header_path_and_body(client: Any, tmp_path: Path) -> None:
    sent = {"content": npy(INPUTS[0].numpy()), "headers": {**NPY, "X-Tenant": "north"}}
    first = client.post("/v1/predict?logits=1", **sent).json()["logits"]
    assert client.post("/v1/freeze", headers={"X-Tenant": "north"}).json()["kind"] == "freeze"
    before = client.get("/v1/tenants/north/status").json()["tenants"]["north"]
    assert before["frozen"]
    client.post("/v1/predict", **sent)
    assert client.get("/v1/tenants/north/status").json()["tenants"]["north"]["digest"] == before["digest"]
    assert client.post("/v1/tenants/north/resume").json()["kind"] == "resume"
    client.post("/v1/predict", **sent)
    assert client.get("/v1/status").json()["tenants"]["north"]["digest"] != before["digest"]
    content = client.post("/v1/export", json={"tenant": "north"}).content
    (tmp_path / "state").mkdir(exist_ok=True)
    (tmp_path / "exported").write_bytes(content)
    model = guard(network(), "tent", budget=1.0)
    assert model.load(tmp_path / "exported")["tenant"] == "north"
    assert client.post("/v1/reset", json={"tenant": "north"}).json()["committed"]
    assert client.post("/v1/predict?logits=1", **sent).json()["logits"] == first
    wait_until(lambda: len(client.get("/v1/history", headers={"X-Tenant": "north"}).json()) == 7)
    kinds = [one["kind"] for one in client.get("/v1/history", headers={"X-Tenant": "north"}).json()]
    assert kinds == ["batch", "freeze", "batch", "resume", "batch", "reset", "batch"]
    assert client.post("/v1/reset", json={"tenant": "nobody"}).status_code == 404


def test_a_graceful_stop_leaves_states_and_an_intact_log(tmp_path: Path) -> None:
    service = make_service(tmp_path, checkpoint_every=100)
    with TestClient(create_app(service)) as client:
        for batch in INPUTS:
            client.post("/v1/predict", content=npy(batch.numpy()), headers=NPY)
        digest = client.get("/v1/status").json()["tenants"]["default"]["digest"]
    assert verify_audit(tmp_path / "audit.db").problem is None
    decisions = list(read_audit(tmp_path / "audit.db"))
    assert [one.kind for one in decisions] == ["started", "batch", "batch", "batch", "stopped"]
    chain = [one for one in decisions if one.kind == "batch"]
    assert [one.before for one in chain[1:]] == [one.after for one in chain[:-1]]
    assert len(chain[0].classes) == 4
    again = Tenants(network(), "tent", folder=tmp_path)
    assert (again.status("default").batches, again.status("default").digest) == (3, digest)
    again.close()


def test_estimates_are_metrics() -> None:
    metrics = Metrics()
    estimates = {"estimate": 0.7, "low": 0.6, "high": 0.8, "gain": -0.1}
    metrics.count(Decision(time=0, tenant="a", kind="batch", batch=0, before="", after="", **estimates))
    text = metrics.text().decode()
    for name, value in {"accuracy": 0.7, "accuracy_low": 0.6, "accuracy_high": 0.8, "gain": -0.1}.items():
        assert f'holdfast_estimated_{name}{{tenant="a"}} {value}' in text


def test_metrics_health_and_the_description(client: Any) -> None:
    client.post("/v1/predict", content=npy(INPUTS[0].numpy()), headers={**NPY, "X-Tenant": "north"})
    client.post("/v1/reset", json={"tenant": "north"})
    wait_until(lambda: "estimated_gain{" in client.get("/metrics").text)
    text = client.get("/metrics").text
    for line in (
        'holdfast_requests_total{path="/v1/predict",status="200"} 1.0',
        'holdfast_samples_total{tenant="north"} 4.0',
        'holdfast_resets_total{tenant="north"} 1.0',
        'holdfast_finish_seconds_count{tenant="north"} 1.0',
        'holdfast_estimated_gain{tenant="north"}',
        "holdfast_queue_samples 0.0",
        "holdfast_learning_stopped 0.0",
    ):
        assert line in text, line
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").status_code == 200
    described = client.get("/openapi.json").json()["paths"]
    wanted = ["predict", "feedback", "status", "reset", "freeze", "resume", "export"]
    assert {f"/v1/{name}" for name in wanted} <= set(described)
    assert "image/png" in described["/v1/predict"]["post"]["requestBody"]["content"]
    assert client.get("/docs").status_code == 404


def test_a_full_disk_is_told_and_predictions_go_on(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = {"content": npy(INPUTS[0].numpy()), "headers": NPY}
    client.post("/v1/predict", **sent)

    class Full:
        def execute(self, *_: Any) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        def close(self) -> None:
            pass

    log = client.service.tenants.disk.log
    whole = vars(log)["_connection"]
    monkeypatch.setattr(log, "_connection", Full())
    assert client.post("/v1/predict", **sent).status_code == 200
    wait_until(lambda: client.get("/v1/status").json()["learning_stopped"])
    before = client.get("/v1/status").json()
    assert "disk is full" in before["learning_stopped"]
    assert client.post("/v1/predict", **sent).status_code == 200
    assert client.get("/v1/status").json()["tenants"]["default"]["digest"] == before["tenants"]["default"]["digest"]
    assert "holdfast_learning_stopped 1.0" in client.get("/metrics").text
    monkeypatch.setattr(log, "_connection", whole)


# What is refused ------------------------------------------------------------------------------------------


def bomb(side: int) -> bytes:
    """Return a small PNG file of a huge image."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        checked = kind + content
        return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))

    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    packed = zlib.compress(b"\0" * ((side // 8 + 1) * 100), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def test_wrong_bodies_are_refused_without_internals(client: Any) -> None:
    good = INPUTS[0].numpy()
    nan = good.copy()
    nan[0, 0, 0, 0] = np.nan
    lying = npy(good).replace(b"(4, 3, 32, 32)", b"(4, 3, 32, 99)")
    refused: list[tuple[bytes, str, int]] = [
        (npy(nan), "application/x-npy", 422),
        (json.dumps(nan[0].tolist()).encode(), "application/json", 422),
        (npy(good[:, :1]), "application/x-npy", 422),
        (npy(good[:0]), "application/x-npy", 422),
        (npy(np.zeros((300, 3, 32, 32), np.float16)), "application/x-npy", 413),
        (npy(np.array([{}], object)), "application/x-npy", 422),
        (npy(good.astype(np.uint8)), "application/x-npy", 422),
        (npy(good.astype(np.complex64)), "application/x-npy", 422),
        (npy(np.array(["a"])), "application/x-npy", 422),
        (lying, "application/x-npy", 422),
        (npy(good)[:-5], "application/x-npy", 422),
        (pickle.dumps(good), "application/x-npy", 422),
        (b"[[1, 2], [3]]", "application/json", 422),
        (b"[" * 10_000, "application/json", 422),
        (b"[" * 100_000, "application/json", 413),
        (b'{"inputs": "a"}', "application/json", 422),
        (b"", "application/json", 422),
        (b"\xff\xfe", "application/json", 422),
        (bomb(60_000), "image/png", 413),
        (png(np.zeros((16, 16, 3), np.uint8)), "image/png", 422),
        (png(np.zeros((32, 32, 3), np.uint8))[:60], "image/png", 422),
        (b"GIF89a", "image/png", 422),
        (b"RIFF", "audio/wav", 422),
        (b"x", "text/html", 415),
        (b"x", "multipart/form-data", 422),
        (b"--a\r\n\r\nx\r\n--a--", "multipart/form-data; boundary=a", 422),
        (b"0" * (17 * 2**20), "application/octet-stream", 413),
    ]
    for body, kind, status in refused:
        answer = client.post("/v1/predict", content=body, headers={"content-type": kind})
        assert answer.status_code == status, (body[:40], kind, answer.text)
        assert set(answer.json()) == {"error"}
        assert "Traceback" not in answer.text
        assert "/" not in answer.json()["error"].replace("application/", "").replace("image/", "").replace(
            "audio/", ""
        ).replace("multipart/", "").replace("text/", ""), "a path"
    assert client.get("/v1/status").json()["tenants"] == {}


def test_integer_images_are_refused_in_one_sentence(client: Any) -> None:
    pixels = (255 * INPUTS[0].numpy()).astype(np.uint8)
    sent: dict[str, tuple[bytes, str]] = {
        "uint8": (npy(pixels), "application/x-npy"),
        "int8": (npy(pixels.astype(np.int8)), "application/x-npy"),
        "int64": (npy(pixels.astype(">i8")), "application/x-npy"),
        "uint16": (npy(pixels.astype(np.uint16)), "application/x-npy"),
    }
    for dtype, (body, kind) in {**sent, "JSON": (json.dumps(pixels.tolist()).encode(), "application/json")}.items():
        answer = client.post("/v1/predict", content=body, headers={"content-type": kind})
        assert answer.status_code == 422, dtype
        held = "int64" if dtype == "JSON" else dtype
        assert answer.json()["error"] == (
            f"the array holds {held}; send floating-point values scaled as in training, e.g. divided by 255"
        )
    assert client.get("/v1/status").json()["tenants"] == {}
    black_and_white = (pixels > 99).astype(int)
    answer = client.post("/v1/predict?logits=1", json=black_and_white.tolist())  # JSON has no floats of its own
    assert answer.status_code == 200
    as_floats = client.post("/v1/tenants/b/predict?logits=1", content=npy(black_and_white.astype(float)), headers=NPY)
    assert answer.json()["logits"] == as_floats.json()["logits"]


class TakesBytes(torch.nn.Module):
    """A network that scales bytes itself, and takes nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.network = network()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        assert inputs.dtype == torch.uint8
        logits: torch.Tensor = self.network(inputs.float() / 255)
        return logits


def test_a_network_that_takes_bytes_gets_bytes() -> None:
    pixels = np.arange(3 * 32 * 32, dtype=np.int64).reshape(3, 32, 32) % 256
    as_image = np.ascontiguousarray(pixels.transpose(1, 2, 0)).astype(np.uint8)
    model = TakesBytes().eval()
    expected = model(torch.from_numpy(pixels)[None].to(torch.uint8)).tolist()
    good = [
        (npy(pixels.astype(np.uint8)), "application/x-npy"),
        (npy(pixels), "application/x-npy"),
        (npy(pixels.astype(np.float32)), "application/x-npy"),
        (json.dumps(pixels.tolist()).encode(), "application/json"),
        (png(as_image), "image/png"),
    ]
    wrong = [npy(pixels / 255), npy(pixels + 1), npy(pixels - 1), npy(np.full((3, 32, 32), np.nan))]
    with TestClient(create_app(Service(Tenants(model, "source", guarded=False), wait=0.0))) as client:
        for body, kind in good:
            answer = client.post("/v1/predict?logits=1", content=body, headers={"content-type": kind})
            assert answer.status_code == 200, answer.text
            assert np.allclose(answer.json()["logits"], expected, atol=1e-6), kind
        for body in wrong:
            answer = client.post("/v1/predict", content=body, headers=NPY)
            assert (answer.status_code, answer.json()["error"]) == (422, "the network takes integers from 0 to 255")


def test_two_hundred_mutated_bodies_never_end_in_an_error_of_the_service(client: Any) -> None:
    rng = random.Random(0)
    pixels = np.zeros((32, 32, 3), np.uint8)
    seeds = [
        (npy(INPUTS[0, :1].numpy().astype(np.float16)), "application/x-npy"),
        (json.dumps({"inputs": np.zeros((3, 32, 32)).tolist()}).encode(), "application/json"),
        (png(pixels), "image/png"),
        (png(pixels, "JPEG"), "image/jpeg"),
    ]
    for _ in range(200):
        body, kind = rng.choice(seeds)
        mutated = bytearray(body)
        for _ in range(rng.randint(1, 6)):
            offset = rng.randrange(min(len(mutated), 200))
            mutated[offset] = rng.randrange(256)
        if rng.random() < 0.3:
            del mutated[rng.randrange(len(mutated)) :]
        answer = client.post("/v1/predict", content=bytes(mutated), headers={"content-type": kind})
        assert answer.status_code in (200, 413, 415, 422), answer.text
    assert client.get("/readyz").status_code == 200


def test_a_token_is_wanted_everywhere_but_for_the_page_and_health() -> None:
    token = "a-token-of-sixteen-characters"
    with TestClient(create_app(make_service(), token=token)) as client:
        for path in ("/", "/healthz", "/readyz"):
            assert client.get(path).status_code == 200
        for path in ("/v1/status", "/metrics", "/openapi.json"):
            assert client.get(path).status_code == 401
            for wrong in ("Bearer x", f"Basic {token}", f"Bearer {token}x", "Bearer ü".encode("latin-1")):
                assert client.get(path, headers={"Authorization": wrong}).status_code == 401
            assert client.get(path, headers={"Authorization": f"Bearer {token}"}).status_code == 200


def test_other_sites_and_other_host_names_are_refused() -> None:
    with TestClient(create_app(make_service(), hosts=("127.0.0.1",)), base_url="http://127.0.0.1:8000") as client:
        assert client.get("/v1/status").status_code == 200
        assert client.get("/v1/status", headers={"Origin": "http://127.0.0.1:8000"}).status_code == 200
        for other in ("http://evil.example", "http://127.0.0.1:8001", "http://127.0.0.1"):
            assert client.post("/v1/reset", headers={"Origin": other}).status_code == 403
        assert client.get("/v1/status", headers={"Host": "evil.example"}).status_code == 421


def test_an_address_that_others_reach_needs_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_TOKEN", raising=False)
    assert read_token(None) is None
    with pytest.raises(ValueError, match="pass --token-file"):
        check_address("0.0.0.0", None)
    check_address("0.0.0.0", "a-token-of-sixteen-characters")
    (tmp_path / "token").write_text("short\n")
    with pytest.raises(ValueError, match="at least 16"):
        read_token(tmp_path / "token")
    monkeypatch.setenv("HOLDFAST_TOKEN", "from-the-environment")
    assert read_token(None) == "from-the-environment"


def test_rates_tenants_and_names_are_limited() -> None:
    service = make_service(limit=2)
    service.rate = Rate(2, clock=lambda: 0.0)
    sent = {"content": npy(INPUTS[0].numpy()), "headers": NPY}
    with TestClient(create_app(service)) as client:
        codes = [client.post("/v1/tenants/a/predict", **sent).status_code for _ in range(6)]
        assert codes == [200, 200, 429, 429, 429, 429]
        client.post("/v1/tenants/b/predict", **sent)
        assert client.post("/v1/tenants/c/predict", **sent).status_code == 429
        for name in ("..%2Fetc", "a%20b", "%2e%2e", "x" * 65):
            assert client.post(f"/v1/tenants/{name}/predict", **sent).status_code in (404, 422)
        assert client.post("/v1/predict", content=b"", headers={"X-Tenant": "../x"}).status_code == 422


def test_an_error_inside_says_nothing_of_it(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("secret /etc/passwd")

    monkeypatch.setattr(client.service.tenants, "begin", broken)
    answer = client.post("/v1/predict", content=npy(INPUTS[0].numpy()), headers=NPY)
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert client.get("/readyz").status_code == 200


@pytest.mark.filterwarnings("ignore")  # of transformers
def test_a_clip_with_class_names_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "models"))
    from small_clip import save_clip

    save_clip(tmp_path / "clip")
    network = load(f"clip:{tmp_path / 'clip'}", class_names=["dog", "cat", "fox"])
    service = Service(Tenants(network, "tda", guarded=False), batch=4, wait=0.0)
    with TestClient(create_app(service)) as client:
        for size in (2, 1):  # an image at a time too
            response = client.post("/v1/predict?logits=true", content=npy(INPUTS[0][:size].numpy()), headers=NPY)
            assert response.status_code == 200, response.text
            assert np.shape(response.json()["logits"]) == (size, 3)
