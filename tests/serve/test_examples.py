"""The examples name metrics and files that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

from holdfast.serve.metrics import Metrics

COMPOSE = Path(__file__).parents[2] / "examples" / "serve" / "compose"


def test_the_dashboard_shows_metrics_that_the_service_has() -> None:
    board = json.loads((COMPOSE / "grafana" / "dashboards" / "holdfast.json").read_text())
    asked = " ".join(target["expr"] for panel in board["panels"] for target in panel["targets"])
    named = {re.sub(r"_(total|bucket)$", "", name) for name in re.findall(r"holdfast_\w+", asked)}
    known = {metric.name for metric in Metrics().registry.collect()}
    assert named <= known, named - known
    assert {"holdfast_vetoes", "holdfast_estimated_gain", "holdfast_queue_samples"} <= named


def test_every_mounted_file_of_the_compose_file_exists() -> None:
    services = yaml.safe_load((COMPOSE / "compose.yaml").read_text())["services"]
    mounted = [volume.split(":")[0] for service in services.values() for volume in service.get("volumes", [])]
    paths = [place for place in mounted if place.startswith(".")]
    assert len(paths) == 4
    for place in paths:
        assert (COMPOSE / place).exists(), place
    scraped = yaml.safe_load((COMPOSE / "prometheus.yaml").read_text())["scrape_configs"][0]
    assert scraped["static_configs"][0]["targets"] == ["holdfast:8000"]
