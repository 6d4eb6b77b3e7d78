"""The model card of a shared model shows the tables of runs, and its results where the Hub looks for them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from holdfast.connect.config import Config
from holdfast.connect.model_card import model_card
from tests.report.run_files import WriteRun, batches


def test_the_card_has_the_tables_and_the_own_result_in_the_model_index(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("source", batches({"fog": [5, 6]}))
    write_run("tent", batches({"fog": [8, 9]}))
    config = Config("adapted", "0.2.0", recipe={"name": "tent", "options": {"lr": 1e-3}}, input_kind="image")
    text = model_card(config, repo_id="me/north", results=tmp_path / "runs")
    _, metadata, shown = text.split("---\n", 2)
    assert re.search(r"\| source +\|.* 55\.0 ", shown)
    assert re.search(r"\| tent +\|.* \**85\.0", shown)
    assert "lr=0.001" in shown
    (entry,) = yaml.safe_load(metadata)["model-index"]
    (result,) = entry["results"]
    assert result["metrics"][0]["value"] == pytest.approx(85.0)
    assert result["task"]["type"] == "image-classification"
    hub = pytest.importorskip("huggingface_hub")
    (read,) = hub.ModelCard(text).data.eval_results
    assert (read.metric_type, read.metric_value) == ("accuracy", pytest.approx(85.0))


def test_a_card_without_runs_has_no_results() -> None:
    text = model_card(Config("card", "0.2.0", weights="90ab", samples=512), repo_id="me/moments")
    assert "Results" not in text
    assert "model-index" not in text
    assert 'card = holdfast.from_hub("me/moments")' in text
