"""State files: what is refused before anything changes, what survives crashes and concurrency, and 1 000 mutations."""

from __future__ import annotations

import copy
import json
import os
import random
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save
from torch import Tensor

from holdfast import adapt
from holdfast.model.adapted import AdaptedModel
from holdfast.models.tiny import tiny_resnet
from holdfast.state import SavedStateError, pack_state, read_state, write_state
from holdfast.state.digest import digest_of, divided, joined
from holdfast.state.files import SCHEMA
from holdfast.testing.comparison import first_difference

BATCHES = torch.rand(4, 8, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def build(name: str = "tent", **options: Any) -> AdaptedModel:
    return adapt(tiny_resnet(), name, **options)


def adapted(name: str = "tent", **options: Any) -> AdaptedModel:
    model = build(name, **options)
    for batch in BATCHES:
        model(batch)
    return model


def rewritten(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> Path:
    """Change the state and header of a file, with a checksum that is right again."""
    state, header = read_state(path)
    change(state, header)
    write_state(path, state, header)
    return path


def refused(model: AdaptedModel, path: Path) -> str:
    """Return the refusal of a file, after checking that nothing has changed."""
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(SavedStateError) as refusal:
        model.load(path)
    assert first_difference(before, model.state_dict()) is None
    return str(refusal.value)


def trained_name(state: Mapping[str, Any]) -> str:
    tensors: dict[str, Tensor] = state["tensors"]
    return next(name for name, value in tensors.items() if value.dim() == 1)


def optimizer_of(state: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    optimizer: dict[int, dict[str, Any]] = state["declared"]["method"]["optimizer"]
    return optimizer


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda state, _: state["tensors"].update({"model.module.fc.weight": torch.zeros(10, 16)}),
            "nothing that adaptation",
        ),
        (lambda state, _: state.update(other={}), "nothing that adaptation"),
        (lambda state, _: state.pop("tensors"), "missing"),
        (lambda state, _: state["tensors"].pop(trained_name(state)), "missing"),
        (lambda state, _: state["declared"].pop("recovery"), "missing"),
        (lambda state, _: state["tensors"][trained_name(state)].fill_(float("nan")), "not finite"),
        (lambda state, _: state["tensors"].update({trained_name(state): torch.zeros(3)}), "shape"),
        (lambda state, _: state["tensors"].update({trained_name(state): torch.zeros(16).double()}), "torch.float64"),
        (lambda state, _: state["tensors"].update({trained_name(state): 3}), "int"),
        (lambda state, _: state["declared"]["method"].update(batches=None), "NoneType"),
        (lambda state, _: state["declared"]["method"].update(batches=2.5), "float"),
        (lambda state, _: state["declared"]["method"].update(other=1), "expected"),
        (lambda state, _: optimizer_of(state).update({99: {}}), "moments of"),
        (lambda state, _: optimizer_of(state).pop(0), "moments of"),
        (lambda state, _: optimizer_of(state)[0].update(step=torch.ones(())), "no such moments"),
        (lambda state, _: optimizer_of(state)[0].update(momentum_buffer=torch.zeros(1)), "shape"),
        (lambda _, header: header.pop("note"), "not the state of an adapted model"),
        (lambda _, header: header.update(weights=7), "other weights"),
        (lambda _, header: header.update(recipe=None), "another recipe"),
    ],
)
def test_files_that_do_not_fit_are_refused_before_anything_changes(
    tmp_path: Path, change: Callable[[dict[str, Any], dict[str, Any]], None], words: str
) -> None:
    adapted(optimizer="sgd").save(tmp_path / "state")
    assert words in refused(adapted(optimizer="sgd"), rewritten(tmp_path / "state", change))


@pytest.mark.parametrize(
    ("name", "options", "part", "change"),
    [
        ("rotta", {"every_samples": 8}, "memory", lambda own: own.update(held=None)),
        ("rotta", {"every_samples": 8}, "memory", lambda own: own["times"].pop()),
        ("note", {"every_samples": 8}, "memory", lambda own: own["slots"].update({3: [99]})),
        ("bdn", {}, "domains", lambda own: own["stratum_counts"].append(1)),
        ("bdn", {}, "domains", lambda own: own.update(counts=[0])),
        ("neo", {}, "", lambda own: own.update(centre=torch.zeros(3))),
        ("t3a", {}, "", lambda own: own.update(supports=own["supports"][:, :2])),
    ],
)
def test_declared_state_that_contradicts_itself_is_refused(
    tmp_path: Path, name: str, options: dict[str, Any], part: str, change: Callable[[dict[str, Any]], None]
) -> None:
    model = adapted(name, **options)
    model.save(tmp_path / "state")
    key = ".".join(word for word in ("method", part) if word)
    changed = rewritten(tmp_path / "state", lambda state, _: change(state["declared"][key]))
    assert "does not fit" in refused(model, changed)


def test_a_model_that_is_used_to_small_inputs_loads_its_state(tmp_path: Path) -> None:
    """The random inputs of the check before loading are outside of their range, which is no fault of the file."""
    network = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.LayerNorm(6), torch.nn.Linear(6, 3)).eval()
    model = adapt(network, "tent")
    model(1e-3 * torch.rand(8, 4, generator=torch.Generator().manual_seed(0)))
    model.save(tmp_path / "state")
    adapt(network, "tent").load(tmp_path / "state")


def mutations(content: bytes, rng: random.Random) -> bytes:
    """Return a state file with one random fault, half of them with a checksum that is right again."""
    kind = rng.choice(["flip", "cut", "grow", "rename", "retype", "drop", "poison", "reshape"])
    if kind == "flip":
        offset = rng.randrange(len(content))
        return content[:offset] + bytes([content[offset] ^ (1 << rng.randrange(8))]) + content[offset + 1 :]
    if kind == "cut":
        return content[: rng.randrange(len(content))]
    if kind == "grow":
        return content + bytes(rng.randrange(1, 9))
    length = int.from_bytes(content[:8], "little")
    header = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["holdfast"])
    tensors = load_tensors(content)
    state = joined(header.pop("state"), {name: tensor.clone() for name, tensor in tensors.items()})
    target, key = rng.choice(entries_of(state))
    value = target[key]
    if kind == "rename":
        target[f"{key}x"] = target.pop(key)
    elif kind == "drop" or not isinstance(value, Tensor):
        target.pop(key)
    elif kind == "retype":
        target[key] = value.to(torch.float64 if value.dtype == torch.float32 else torch.float32)
    elif kind == "poison":
        target[key] = torch.full(value.shape, float("nan"))
    else:
        target[key] = value.new_zeros(value.numel() + 1)
    return pack_state(state, header)


def entries_of(value: Any) -> list[tuple[dict[Any, Any], Any]]:
    """Return every entry of every mapping in a snapshot, except under the free keys of a declared mapping."""
    entries = [(value, key) for key in value] + [(value["tensors"], key) for key in value["tensors"]]
    entries += [(value["declared"], key) for key in value["declared"]]
    for part in value["declared"].values():
        moments = part.get("optimizer", {})
        entries += [(owner, key) for owner in (part, moments, *moments.values()) for key in owner]
    return entries


@pytest.mark.parametrize("count", [50, pytest.param(334, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "options"), [("tent", {"optimizer": "adam"}), ("unitta", {}), ("rotta", {})])
def test_no_mutated_file_loads_silently_wrong(tmp_path: Path, name: str, options: dict[str, Any], count: int) -> None:
    """150 mutations, or a thousand; those that change nothing, as an unused byte, may load and must load the same."""
    model, path = adapted(name, **options), tmp_path / "state"
    model.save(path)
    content, rng = path.read_bytes(), random.Random(0)
    before = copy.deepcopy(model.state_dict())
    refusals = 0
    for _ in range(count):
        mutated = mutations(content, rng)
        path.write_bytes(mutated)
        try:
            model.load(path)
        except SavedStateError:
            refusals += 1
        assert first_difference(before, model.state_dict()) is None, "a mutated file was loaded"
    assert refusals > 0.8 * count


def test_concurrent_saves_to_one_path_never_fail(tmp_path: Path) -> None:
    path, faults = tmp_path / "state", []
    model = adapted()

    def save(other: AdaptedModel) -> None:
        try:
            for _ in range(8):
                model.save(path)
                other.load(path)
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=save, args=(build(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert os.listdir(tmp_path) == ["state"]


def test_a_failed_save_leaves_the_old_file_and_no_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, path = adapted(), tmp_path / "state"
    model.save(path, note="old")

    def fail(*_: object) -> None:
        raise OSError("no space left on device")

    for call in ("fsync", "replace"):
        with monkeypatch.context() as patched:
            patched.setattr(os, call, fail)
            with pytest.raises(OSError, match="no space"):
                model.save(path, note="new")
        assert os.listdir(tmp_path) == ["state"]
        assert build().load(path) == "old"


def test_file_and_folder_are_flushed_before_and_after_the_replacement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: (calls.append("fsync"), fsync(file)))
    monkeypatch.setattr(os, "replace", lambda *paths: (calls.append("replace"), replace(*paths)))
    adapted().save(tmp_path / "state")
    assert calls == ["fsync", "replace", "fsync"]


def test_links_and_devices_are_not_replaced(tmp_path: Path) -> None:
    model, target, link = adapted(), tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    for _ in range(2):  # before and after the target exists
        model.save(link)
    assert link.is_symlink()
    build().load(target)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    model.save(pipe)
    reader.join()
    target.write_bytes(received[0])
    build().load(target)
    assert pipe.is_fifo()
    with pytest.raises(IsADirectoryError):
        model.save(tmp_path)


def test_moments_follow_the_model_to_another_type() -> None:
    model = adapted(optimizer="adam").double()
    moments = list(model.method.get_extra_state()["optimizer"].values())
    assert moments
    assert all(own["exp_avg"].dtype == own["exp_avg_sq"].dtype == torch.float64 for own in moments)
    assert model.step(BATCHES[0].double()).skipped is None


@pytest.mark.filterwarnings("ignore:for method")  # a tensor on the meta device has no values to copy
@pytest.mark.parametrize("name", ["t3a", "neo", "cofa", "tent"])
def test_declared_state_goes_to_the_device_of_the_model(name: str) -> None:
    """On the meta device, which needs no hardware: what a GPU would do, without values."""
    saved = adapted(name, estimator="anchored", recovery="regret").state_dict()
    model = build(name, estimator="anchored", recovery="regret").to("meta")
    model.load_state_dict({key: value for key, value in saved.items() if key.endswith("_extra_state")}, strict=False)
    tensors: list[Tensor] = []

    def collect(value: Any) -> None:
        if isinstance(value, Tensor):
            tensors.append(value)
        elif isinstance(value, dict):
            for key, item in value.items():
                if key != "optimizer":  # torch moves it with its parameters
                    collect(item)

    collect({name: value for name, value in model.state_dict().items() if name.endswith("_extra_state")})
    assert tensors
    assert {tensor.device.type for tensor in tensors} == {"meta"}


@pytest.mark.parametrize(("name", "options"), [("guard", {}), ("tent", {"estimator": {"scale": "anchored"}})])
def test_files_of_the_schema_before_are_read(tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    """There the temperature of the guard and of `anchored` was a part called scale."""
    model, path = adapted(name, **options), tmp_path / "state"
    model.save(path, note="old")
    state, header = read_state(path)
    now = [part for part in state["declared"] if part.endswith(".anchor_temperature")]
    assert len(now) == 1
    state["declared"][now[0].replace("anchor_temperature", "scale")] = state["declared"].pop(now[0])
    outline, tensors = divided(state)
    body = json.dumps({**header, "state": outline})
    metadata = {"holdfast": body, "checksum": digest_of(body, tensors), "schema": "3"}
    path.write_bytes(save({f"{number}": tensor.clone() for number, tensor in enumerate(tensors)}, metadata))
    other = build(name, **options)
    assert other.load(path) == "old"
    assert first_difference(model.state_dict(), other.state_dict()) is None


@pytest.mark.parametrize(
    ("schema", "tensors", "words"),
    [
        ({}, {}, "has state schema none"),
        ({"schema": SCHEMA}, {"0": torch.zeros(2)}, "holds tensors that its header does not name"),
    ],
)
def test_a_file_without_a_schema_or_with_tensors_that_it_does_not_name_is_refused(
    tmp_path: Path, schema: dict[str, str], tensors: dict[str, Tensor], words: str
) -> None:
    body = json.dumps({"recipe": {}, "state": {}})
    metadata = {"holdfast": body, "checksum": digest_of(body, tensors.values()), **schema}
    (tmp_path / "state").write_bytes(save(tensors, metadata))
    with pytest.raises(SavedStateError, match=words):
        read_state(tmp_path / "state")
