"""What was served is replayed through other methods and recoveries, with the labels that came back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from holdfast import adapt
from holdfast.cli import app as commands
from holdfast.models.tiny import tiny_resnet
from holdfast.serve.app import create_app
from holdfast.serve.build import build_service
from holdfast.serve.limits import Limits
from holdfast.serve.replaying import read_served, replay_served
from holdfast.serve.service import Service
from holdfast.serve.stored_inputs import read_stored, stored
from tests.serve.bodies import npy
from tests.serve.conftest import BUILDING as SETTINGS
from tests.serve.conftest import batches, wait_until

STREAMS = {name: batches(3, 4, seed) for seed, name in enumerate(("north", "south"))}
BUILDING = {**SETTINGS, "method": "tent", "options": {"lr": 0.05}, "budget": 1.0}


def serve(folder: Path) -> Service:
    return build_service(BUILDING, folder=folder, limits=Limits())


def post(client: Any, tenant: str, inputs: torch.Tensor) -> dict[str, Any]:
    headers = {"content-type": "application/x-npy", "X-Tenant": tenant}
    prediction: dict[str, Any] = client.post("/v1/predict", content=npy(inputs.numpy()), headers=headers).json()
    return prediction


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a service: two tenants, and the labels of the second batch of one; the class is always 3."""
    path = tmp_path_factory.mktemp("served")
    with TestClient(create_app(serve(path))) as client:
        for index in range(3):
            for tenant, stream in STREAMS.items():
                prediction = post(client, tenant, stream[index])
                if (tenant, index) == ("south", 1):
                    for name in prediction["ids"]:
                        assert client.post("/v1/feedback", json={"id": name, "label": 3}).json() == {"counts": True}
    return path


def test_replay_predicts_what_the_method_would_have_and_counts_its_labels(folder: Path) -> None:
    batches = read_served(folder)
    assert [one.tenant for one in batches] == ["north", "south"] * 3
    assert [one.labels for one in batches] == [(), (), (), tuple((index, 3) for index in range(4)), (), ()]
    by_name = {one.name: one for one in replay_served(folder, methods=["eta"], recoveries=["never"])}
    assert list(by_name) == ["as served", "source", "eta", "tent + never"]
    for name, recipe in {"eta": ("eta", {}), "tent + never": ("tent", {"lr": 0.05})}.items():
        same = right = 0
        for tenant, stream in STREAMS.items():
            model = adapt(tiny_resnet(), recipe[0], recovery="never", **recipe[1])
            for index, (inputs, served) in enumerate(
                zip(stream, [b for b in batches if b.tenant == tenant], strict=True)
            ):
                classes = model(inputs).argmax(1)
                same += int((classes == torch.tensor(served.classes)).sum())
                right += int((classes == 3).sum()) if (tenant, index) == ("south", 1) else 0
        assert by_name[name].as_served == pytest.approx(100 * same / 24)
        assert by_name[name].accuracy == pytest.approx(100 * right / 4)
    assert (by_name["as served"].as_served, by_name["as served"].samples, by_name["as served"].labelled) == (100, 24, 4)


def test_the_command_replays_one_tenant_with_a_recovery_that_resets(folder: Path) -> None:
    chosen = ["--tenant", "north", "-r", "{name: periodic, every_batches: 1}", "--json"]
    shown = CliRunner().invoke(commands, ["replay", str(folder), *chosen])
    assert shown.exit_code == 0, shown.output
    served, source, again = json.loads(shown.output)
    assert (served["samples"], served["accuracy"], source["name"]) == (12, None, "source")
    assert again["name"] == "tent + periodic(every_batches=1)"
    assert again["resets"] >= 2
    table = CliRunner().invoke(commands, ["replay", str(folder), "-m", "eta"])
    assert "24 samples were served; error: on the 4 that were labelled" in table.output


def test_inputs_of_batches_that_a_crash_lost_stay(tmp_path: Path) -> None:
    lost = serve(tmp_path)
    lost.start()
    answers: list[Any] = []
    for index in range(2):
        lost.submit("north", STREAMS["north"][index], answers.append)
        wait_until(lambda index=index: len(answers) > index)  # type: ignore[misc]
    wait_until(lambda: lost.tenants.status("north").batches == 2)
    old = answers[1].ids[0]
    lost.worker.stop()
    vars(lost.tenants.disk)["_owned"].close()  # as the end of a killed process does
    with TestClient(create_app(serve(tmp_path))) as client:
        prediction = post(client, "north", STREAMS["south"][0])
        assert prediction["batch"] == 1, "the second batch was lost"
        assert prediction["ids"][0].partition("-")[0] == old.partition("-")[0]
        assert client.post("/v1/feedback", json={"id": old, "label": 3}).status_code == 404, "the id is of a lost batch"
        assert client.post("/v1/feedback", json={"id": answers[0].ids[0], "label": 3}).json() == {"counts": True}
        assert client.post("/v1/feedback", json={"id": prediction["ids"][0], "label": 1}).json() == {"counts": True}
    batches = read_served(tmp_path)
    assert [one.labels for one in batches] == [((0, 3),), (), ((0, 1),)]
    assert len({one.inputs for one in batches}) == 3


def test_what_cannot_be_replayed_is_said_in_one_sentence(folder: Path, tmp_path: Path) -> None:
    def error_of(*arguments: str) -> str:
        result = CliRunner().invoke(commands, ["replay", *arguments])
        assert result.exit_code != 0
        return str(result.exception)

    assert "no stored inputs of tenant nobody" in error_of(str(folder), "--tenant", "nobody")
    assert "--state folder of a service" in error_of("demo", "--method", "eta")
    changed = tmp_path / "changed"
    shutil.copytree(folder, changed)
    building = json.loads((changed / "building.json").read_text())
    (changed / "building.json").write_text(json.dumps({**building, "model": "file:net.py:make"}))
    assert "--allow-code" in error_of(str(changed))
    other = {"name": "imported", "target": "holdfast.models.tiny:tiny_resnet", "arguments": {"seed": 1}}
    (changed / "building.json").write_text(json.dumps({**building, "model": other}))
    assert "other weights" in error_of(str(changed))
    (changed / "building.json").write_text(json.dumps(building))
    stored = next((changed / "inputs" / "north").glob("*.npy"))
    stored.write_bytes(stored.read_bytes()[:-1] + b"x")
    assert "not those that were served" in error_of(str(changed))
    stored.unlink()
    assert "are missing" in error_of(str(changed))


def test_inputs_outside_of_the_state_folder_are_not_read(tmp_path: Path) -> None:
    name = stored(tmp_path / "other", "north", 0, torch.zeros(1, 2))
    assert torch.equal(read_stored(tmp_path / "other", name), torch.zeros(1, 2))
    (tmp_path / "state").mkdir()
    with pytest.raises(ValueError, match="outside the state folder"):
        read_stored(tmp_path / "state", f"../other/{name}")
