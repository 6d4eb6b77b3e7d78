"""What people expect of a service: names of classes, preprocessing of their own files, and hints."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fastapi.testclient import TestClient
from torch import nn
from typer.testing import CliRunner

from holdfast.cli import app as commands
from holdfast.cli.serve import _misscaled
from holdfast.models import load
from holdfast.models.preprocessing import preprocessing_of
from holdfast.registry import UnknownNameError
from holdfast.serve.app import create_app
from holdfast.serve.build import build_service
from holdfast.serve.class_names import class_names, read_class_names
from holdfast.serve.limits import Limits
from tests.serve.conftest import BUILDING, batches

MAKE = "from holdfast.models.tiny import tiny_resnet as make\n"


def test_classes_have_names_in_answers_and_status(tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("\n".join(f"class {number}" for number in range(10)) + "\n")
    building = {**BUILDING, "classes": str(names), "store_inputs": False, "clean_accuracy": 0.9}
    with TestClient(create_app(build_service(building, folder=None, limits=Limits()))) as client:
        prediction = client.post("/v1/predict", json={"inputs": batches(1)[0].tolist()}).json()
        assert prediction["names"] == [f"class {number}" for number in prediction["classes"]]
        described = client.get("/v1/status").json()["model"]
        assert described["names"][3] == "class 3"
        assert described["given"] == {"clean_accuracy": 0.9}
    names.write_text("one\ntwo\n")
    with pytest.raises(ValueError, match=r"has 2 names, and the network 10 classes"):
        read_class_names(names, 10)


def test_names_come_from_the_zoo_or_the_data() -> None:
    network: Any = nn.Linear(2, 3)
    assert class_names(network, SimpleNamespace(class_names=("a", "b", "c")), 3) == ("a", "b", "c")
    assert class_names(network, SimpleNamespace(class_names=("a", "b")), 3) is None
    network.config = SimpleNamespace(id2label={2: "z", 0: "x", 1: "y"})
    assert class_names(network, SimpleNamespace(class_names=("a", "b", "c")), 3) == ("x", "y", "z")


def test_a_network_of_a_file_takes_its_preprocessing(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(MAKE)
    name = f"file:{tmp_path / 'net.py'}:make"
    plain = load(name)
    normalised = load(name, mean=[0.5] * 3, std=[0.25] * 3, size=32)
    inputs = torch.rand(2, 3, 32, 32)
    assert torch.allclose(normalised(inputs), plain((inputs - 0.5) / 0.25), atol=1e-6)
    preprocessing = preprocessing_of(normalised)
    assert preprocessing is not None
    assert (preprocessing.crop, preprocessing.resize, preprocessing.mean) == ((32, 32), 32, (0.5,) * 3)
    with pytest.raises(ValueError, match="mean and std belong together"):
        load(name, mean=[0.5] * 3)
    nan = float("nan")
    for mean, std in (([0.5] * 3, [0.0, 1.0, 1.0]), ([0.5] * 2, [0.2] * 3), ([nan] * 3, [0.2] * 3)):
        with pytest.raises(ValueError, match="one for each channel, and no std 0"):
            load(name, mean=mean, std=std)
    for size in (0, -3):
        with pytest.raises(ValueError, match="at least 1 pixel"):
            load(name, size=size)


def test_a_file_of_weights_and_a_misspelt_method_get_a_hint() -> None:
    with pytest.raises(UnknownNameError, match=r"write file:net.py:make,\./net\.pt with a Python file"):
        load("./net.pt")
    shown = CliRunner().invoke(commands, ["doctor", "./net.pt"])
    assert "file:net.py:make,./net.pt" in str(shown.exception or shown.output)
    shown = CliRunner().invoke(commands, ["serve", "digits_resnet", "--method", "tnt"])
    assert "did you mean 'tent'?" in str(shown.exception or shown.output)


def test_inputs_of_another_scale_are_noted_once(caplog: pytest.LogCaptureFixture) -> None:
    from holdfast.data import Digits
    from holdfast.data.tensors import as_inputs

    building = {**BUILDING, "model": "digits_resnet", "store_inputs": False}
    service = build_service(building, folder=None, limits=Limits())
    network = service.tenants.model.source_network
    inputs = as_inputs(Digits("test").inputs(torch.arange(40).numpy()))
    assert _misscaled(network, inputs) is None
    service.check_first(lambda first: _misscaled(network, first))
    with TestClient(create_app(service)) as client:
        for part in (255 * inputs).split(20):
            assert client.post("/v1/predict", json={"inputs": part.tolist()}).status_code == 200
        client.post("/v1/predict", json={"inputs": (255 * inputs[:4]).tolist()})
        note = client.get("/v1/status").json()["model"]["note"]
    assert "the first inputs look wrong: values from 0 to 255; divided by 255" in note
    assert sum("look wrong" in record.getMessage() for record in caplog.records) == 1
