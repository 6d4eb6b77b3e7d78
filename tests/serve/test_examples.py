"""The examples name metrics and files that exist."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image
from prometheus_client.parser import text_string_to_metric_families

from holdfast.model.guarded import guard
from holdfast.serve.decision import Decision
from holdfast.serve.metrics import EVENTS
from tests.serve.conftest import batches, listening, make_service, network

COMPOSE = Path(__file__).parents[2] / "examples" / "serve" / "compose"


def test_every_query_of_the_dashboard_selects_series_of_the_service(client: Any) -> None:
    promql = pytest.importorskip("promql_parser")
    client.post("/v1/predict", json={"inputs": batches(1)[0].tolist()})
    known = {"estimate": 0.7, "low": 0.6, "high": 0.8, "gain": 0.1, "events": tuple(EVENTS)}
    client.service.metrics.count(Decision(0.0, "north", "batch", 0, "", "", **known))  # one with all that there can be
    series = sampled(client.get("/metrics").text)
    board = json.loads((COMPOSE / "grafana" / "dashboards" / "holdfast.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    for query in queries:
        selects, groups = parts_of(promql, promql.parse(query.replace("$tenant", ".*")))
        assert selects, query
        for name, labels in selects:
            assert name in series, f"{query}: there is no {name}"
            assert labels | groups <= series[name], f"{query}: {name} has {series[name]}"
    assert all(f"holdfast_{name}_total" in " ".join(queries) for name, _ in EVENTS.values())
    (variable,) = board["templating"]["list"]
    name, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]).groups()  # type: ignore[union-attr]
    assert label in series[name]


def sampled(text: str) -> dict[str, set[str]]:
    """Return the series of the service by name, with their labels."""
    series: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            series.setdefault(sample.name, set()).update(sample.labels)
    return series


def parts_of(promql: Any, query: Any) -> tuple[list[tuple[str, set[str]]], set[str]]:
    """Return the series that a query selects, with the labels that it matches, and those that it groups by."""
    selects: list[tuple[str, set[str]]] = []
    groups: set[str] = set()

    def visit(part: Any) -> None:
        if isinstance(part, promql.VectorSelector):
            selects.append((part.name, {matcher.name for matcher in part.matchers.matchers}))
        if isinstance(part, promql.AggregateExpr):
            groups.update(part.modifier.labels)

    promql.walk(query, visit)
    return selects, groups


def test_every_mounted_file_of_the_compose_file_exists() -> None:
    services = yaml.safe_load((COMPOSE / "compose.yaml").read_text())["services"]
    mounted = [volume.split(":")[0] for service in services.values() for volume in service.get("volumes", [])]
    paths = [path for path in mounted if path.startswith(".")]
    assert len(paths) == 4
    for path in paths:
        assert (COMPOSE / path).exists(), path
    scraped = yaml.safe_load((COMPOSE / "prometheus.yaml").read_text())["scrape_configs"][0]
    assert scraped["static_configs"][0]["targets"] == ["holdfast:8000"]


def test_the_plain_client_predicts_files_and_values_and_sends_labels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example = runpy.run_path(str(COMPOSE.parent / "client.py"))
    Image.new("RGB", (32, 32), (200, 30, 30)).save(tmp_path / "red.png")
    with listening(make_service(budget=1.0), token="secret") as url:
        example["main"]([str(tmp_path / "red.png"), "--url", url, "--tenant", "north", "--token", "secret"])
        assert re.fullmatch(r".*red\.png: class \d \(\d+ %\)  north:0-\w+  please label it\n", capsys.readouterr().out)
        client = example["Client"](url, "north", "secret")
        prediction = client.predict_values(batches(1)[0].tolist())
        assert (prediction["tenant"], len(prediction["classes"])) == ("north", 4)
        assert client.feedback(prediction["ids"][0], prediction["classes"][0]) is True
        assert client.status()["tenants"]["north"]["samples"] == 5
        with pytest.raises(RuntimeError, match="401: "):
            example["Client"](url, "north").status()


def test_the_triton_client_gets_the_answers_of_the_service(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tritonclient.http")
    service = make_service()
    example = runpy.run_path(str(COMPOSE.parent / "triton_client.py"))
    with listening(service) as url:
        host = url.removeprefix("http://")
        client = example["triton"].InferenceServerClient(host)
        assert client.is_server_ready()
        result = example["infer"](client, "model", batches(1)[0].numpy(), "north")
        logits = result.as_numpy("logits")
        assert np.array_equal(logits, guard(network(), "tent").step(batches(1)[0]).logits.numpy())
        assert np.array_equal(logits.argmax(1), result.as_numpy("classes"))
        assert service.tenants.names() == ["north"]
        example["main"](["--url", host, "--model", "model", "--tenant", "south", "--size", "4"])
        assert capsys.readouterr().out.startswith("classes [")
        client.close()
