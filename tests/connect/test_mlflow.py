"""Steps and models in a real MLflow store (SQLite in a folder); needs the extra `mlflow`, which `make` leaves out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import holdfast
from holdfast.connect import MlflowLog, log_model
from holdfast.connect.mlflow import save_model

NEEDED = ("mlflow", "pandas", "sqlalchemy", "alembic")
NAMED = "imported:holdfast.models.tiny:tiny_resnet"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of an empty store."""
    for name in NEEDED:
        pytest.importorskip(name, reason='needs pip install "holdfast[mlflow]"')
    import mlflow

    folder = tmp_path_factory.mktemp("mlflow")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)  # artefacts of a SQLite store are beside it
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        address = f"sqlite:///{folder}/mlflow.db"
        mlflow.set_tracking_uri(address)
        yield address


pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def values(client: Any, run_id: str, name: str) -> list[float]:
    return [metric.value for metric in client.get_metric_history(run_id, name)]


def test_a_run_has_estimates_gains_events_and_digests(store: str, network: nn.Module, batches: Tensor) -> None:
    from mlflow import MlflowClient

    model = holdfast.guard(network, "tent", estimator="gde", clean_accuracy=0.2, budget=0.5)
    digests, estimates, gains = [], [], []
    with MlflowLog(model, tracking_uri=store, experiment="cameras", flush_every=3) as log:
        for batch in (*batches, torch.full((8, 3, 32, 32), 255.0)):
            step = model.step(batch)
            log.step(step)
            digests.append(model.digest())
            estimates.append(step.estimates["gde"].value)
            gains.append(step.estimates["guard"].gain)
    client = MlflowClient(store)
    run = client.get_run(log.run_id)
    assert run.info.status == "FINISHED"
    assert (run.data.params["method"], run.data.params["options/base"]) == ("guard", "tent")
    assert run.data.tags["holdfast.state"] == digests[-1]
    assert run.data.tags["holdfast.weights"] == model.weights
    assert values(client, log.run_id, "accuracy/gde") == pytest.approx([one for one in estimates if one == one])
    assert values(client, log.run_id, "gain/guard") == pytest.approx(gains)
    assert values(client, log.run_id, "events/skipped") == [1.0]
    assert run.data.metrics["guaranteed/accuracy_low"] == 0.0
    files = sorted(item.path for item in client.list_artifacts(log.run_id, "steps"))
    assert files == ["steps/00000000.jsonl", "steps/00000003.jsonl"]
    lines = [
        json.loads(line)
        for file in files
        for line in Path(client.download_artifacts(log.run_id, file)).read_text().splitlines()
    ]
    assert [line["state"] for line in lines] == digests
    assert lines[-1]["events"] == ["skipped"]
    assert lines[-1]["reason"].startswith("inputs reach 255")


def test_a_run_that_fails_says_so_and_keeps_its_steps(store: str, network: nn.Module, batches: Tensor) -> None:
    from mlflow import MlflowClient

    model = holdfast.adapt(network, "tent")
    log = MlflowLog(model, tracking_uri=store)

    def fail() -> None:
        with log:
            log.step(model.step(batches[0]))
            raise KeyError("label")

    with pytest.raises(KeyError, match="label"):
        fail()
    run = MlflowClient(store).get_run(log.run_id)
    assert run.info.status == "FAILED"
    assert "loss" in run.data.metrics


@pytest.mark.usefixtures("store")
def test_a_logged_model_predicts_as_it_was_and_adapts_if_asked(network: nn.Module, batches: Tensor) -> None:
    import mlflow

    model = holdfast.adapt(network, "tent")
    model.step(batches[0])
    with mlflow.start_run():
        logged = log_model(model, "north", network=NAMED)
    inputs = batches[1].numpy()
    frozen = mlflow.pyfunc.load_model(logged.model_uri)
    expected = model.predict(batches[1]).logits.numpy()
    assert np.array_equal(frozen.predict(inputs), expected)
    assert np.array_equal(frozen.predict(inputs), expected)
    assert frozen.metadata.signature.inputs.inputs[0].shape == (-1, 3, 32, 32)
    adapting = mlflow.pyfunc.load_model(logged.model_uri, model_config={"adapt": True})
    for batch in batches[1:]:
        assert np.array_equal(adapting.predict(batch.numpy()), model(batch).numpy())
    assert not np.array_equal(adapting.predict(inputs), expected)


@pytest.mark.usefixtures("store")
def test_a_model_in_a_folder_is_loaded_without_a_run(network: nn.Module, batches: Tensor, tmp_path: Path) -> None:
    import mlflow

    model = holdfast.adapt(network, "tent")
    save_model(model, tmp_path / "north", network=NAMED, adapt=True)
    assert not list((tmp_path / "north").rglob("*.pkl"))
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "north"))
    with pytest.raises(mlflow.MlflowException, match="shape"):
        loaded.predict(np.zeros((2, 3, 16, 16), np.float32))
    loaded.predict(batches[0].numpy())
    assert np.array_equal(loaded.predict(batches[1].numpy()), [model(batch).numpy() for batch in batches[:2]][1])


def test_what_is_missing_is_named(network: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "mlflow", None)
    with pytest.raises(ImportError, match=r"pip install \"holdfast\[mlflow\]\""):
        MlflowLog(holdfast.adapt(network, "tent"))
