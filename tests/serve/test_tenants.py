"""Tenants share a network and nothing else; their states survive eviction, restarts, damage and a full disk."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
import torch

from holdfast import AdaptedModel, adapt, guard
from holdfast.models.cifar_resnet import cifar_resnet
from holdfast.serve.limits import RefusedError
from holdfast.serve.tenants import Tenants
from tests.serve.conftest import batches, network

STREAMS = {name: batches(4, 2, seed) for seed, name in enumerate(("north", "south", "west"))}


def alone(guarded: bool) -> dict[str, list[torch.Tensor]]:
    """Return what each stream's own model predicts."""
    logits = {}
    for name, stream in STREAMS.items():
        model = guard(network(), "tent") if guarded else adapt(network(), "tent")
        logits[name] = [model.step(batch).logits for batch in stream]
    return logits


@pytest.mark.parametrize(
    ("guarded", "active"),
    [(True, 2), (False, 1), *(pytest.param(*pair, marks=pytest.mark.slow) for pair in ((True, 1), (False, 2)))],
)
def test_streams_never_mix(guarded: bool, active: int, tmp_path: Path) -> None:
    tenants = Tenants(network(), "tent", guarded=guarded, active=active, folder=tmp_path, checkpoint_every=3)
    expected = alone(guarded)
    for index in range(4):
        for name, stream in STREAMS.items():
            serving = tenants.begin(name, stream[index])
            assert torch.equal(serving.logits, expected[name][index])
            assert serving.batch == index
    resident = [name for name in STREAMS if tenants.nbytes(name)]
    assert len(resident) == min(active, 3)
    tenants.close()


def test_a_restart_continues_where_the_states_were(tmp_path: Path) -> None:
    expected = alone(guarded=True)
    for index in range(2):
        tenants = Tenants(network(), "tent", folder=tmp_path)
        for name, stream in STREAMS.items():
            assert torch.equal(tenants.step(name, stream[index]).logits, expected[name][index])
            assert tenants.status(name).batches == index + 1
        tenants.close()


def test_reset_freeze_resume_and_export_of_one_leave_the_others(tmp_path: Path) -> None:
    tenants = Tenants(network(), "tent", folder=tmp_path)
    stream = STREAMS["north"]
    fresh = tenants.step("new", stream[0]).logits
    for name in ("north", "south"):
        tenants.step(name, STREAMS[name][0])
    other = tenants.status("south").digest
    frozen = tenants.freeze("north")
    assert frozen.before == frozen.after
    before = tenants.status("north").digest
    serving = tenants.begin("north", stream[1])
    serving.finish()
    assert serving.decision.reason == "the tenant is frozen"
    assert not serving.decision.committed
    assert tenants.status("north").digest == before
    tenants.resume("north")
    tenants.step("north", stream[1])
    assert tenants.status("north").digest != before
    exported = tenants.export("north")
    assert exported(stream[2]).shape == (2, 10)
    (tmp_path / "copy").write_bytes(tenants.saved("north"))
    model = guard(network(), "tent")
    model.load(tmp_path / "copy")
    assert model.digest() == tenants.status("north").digest
    tenants.reset("north")
    assert torch.equal(tenants.step("north", stream[0]).logits, fresh)
    assert tenants.status("south").digest == other
    tenants.close()


def test_frozen_tenants_stay_frozen_after_a_restart(tmp_path: Path) -> None:
    tenants = Tenants(network(), "tent", folder=tmp_path)
    tenants.step("north", STREAMS["north"][0])
    tenants.freeze("north")
    digest = tenants.status("north").digest
    tenants.close()
    again = Tenants(network(), "tent", folder=tmp_path)
    assert again.status("north").frozen
    again.step("north", STREAMS["north"][1])
    assert again.status("north").digest == digest
    again.close()


def test_one_process_owns_a_folder_and_another_model_is_refused(tmp_path: Path) -> None:
    tenants = Tenants(network(), "tent", folder=tmp_path)
    with pytest.raises(RuntimeError, match="in use"):
        Tenants(network(), "tent", folder=tmp_path)
    tenants.close()
    with pytest.raises(ValueError, match="another model, method or options"):
        Tenants(network(), "eta", folder=tmp_path)
    Tenants(network(), "tent", folder=tmp_path).close()


def test_a_damaged_state_is_set_aside_and_the_stream_starts_anew(tmp_path: Path) -> None:
    tenants = Tenants(network(), "tent", folder=tmp_path)
    first = tenants.step("north", STREAMS["north"][0]).logits
    tenants.close()
    path = tmp_path / "north.safetensors"
    content = bytearray(path.read_bytes())
    content[-3] ^= 255
    path.write_bytes(content)
    again = Tenants(network(), "tent", folder=tmp_path)
    assert torch.equal(again.step("north", STREAMS["north"][0]).logits, first)
    assert (tmp_path / "north.damaged").is_file()
    again.close()


def full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_label_waits_for_the_disk_when_the_state_of_its_sample_was_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenants = Tenants(network(), "tent", folder=tmp_path, active=1, budget=1.0)
    for name in ("north", "south"):  # whose state takes the memory
        tenants.step(name, STREAMS[name][0])
    (tmp_path / "north.safetensors").write_bytes(b"damaged")
    with monkeypatch.context() as patched:
        patched.setattr(AdaptedModel, "save", full)
        serving = tenants.begin("north", STREAMS["north"][0])
        serving.finish()
        wanted = serving.ids[serving.wants_label.index(True)]
        with pytest.raises(RefusedError, match="takes no states"):
            tenants.feedback("north", wanted, 0)
    tenants.close()


def test_a_full_disk_stops_learning_and_not_predicting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tenants = Tenants(network(), "tent", folder=tmp_path, active=1, checkpoint_every=1)
    stream = STREAMS["north"]
    tenants.step("north", stream[0])

    with monkeypatch.context() as patched:
        patched.setattr(AdaptedModel, "save", full)
        tenants.step("north", stream[1])
        assert "No space left" in str(tenants.disk.stalled)
        digest = tenants.status("north").digest
        serving = tenants.begin("north", stream[2])
        assert serving.logits.shape == (2, 10)
        serving.finish()
        assert "No space left" in serving.decision.reason
        assert tenants.status("north").digest == digest
        tenants.step("south", stream[0])  # does not fit in memory, and stays there
        assert tenants.status("north").digest == digest
    monkeypatch.setattr("holdfast.serve.disk.RETRY_SECONDS", 0.0)
    tenants.disk.stall("still full")
    tenants.step("north", stream[3])
    assert tenants.disk.stalled is None
    assert tenants.status("north").digest != digest
    tenants.close()


def test_the_default_is_served_without_the_guard_too() -> None:
    tenants = Tenants(network(), guarded=False, source=[STREAMS["south"][0]])
    assert tenants.model.recipe["method"] == "blend"
    assert tenants.step("north", STREAMS["north"][0]).logits.shape == (2, 10)


def test_names_and_numbers_of_tenants_are_limited() -> None:
    tenants = Tenants(network(), "tent", limit=1)
    for name in ("", "../etc", "a/b", ".hidden", "x" * 65, "a b", "ü", "a\n"):
        with pytest.raises(RefusedError):
            tenants.step(name, STREAMS["north"][0])
    tenants.step("north", STREAMS["north"][0])
    with pytest.raises(RefusedError, match="1 tenants already"):
        tenants.step("south", STREAMS["north"][0])
    with pytest.raises(RefusedError, match="no tenant has this name"):
        tenants.reset("south")


@pytest.mark.parametrize("guarded", [False, True])
def test_the_state_of_a_tenant_is_a_tenth_of_the_network_at_most(guarded: bool, tmp_path: Path) -> None:
    model = cifar_resnet()
    size = sum(weight.nbytes for weight in model.parameters())
    tenants = Tenants(model, "tent", guarded=guarded, folder=tmp_path)
    for index in range(2):
        tenants.step("north", STREAMS["north"][index])
    tenants.step("south", STREAMS["north"][0])
    assert 0 < tenants.nbytes("north") <= 0.1 * size
    assert (tmp_path / "north.safetensors").stat().st_size <= (0.2 if guarded else 0.06) * size
    tenants.close()


def test_a_label_that_comes_without_a_batch_survives_close_and_reopen(tmp_path: Path) -> None:
    tenants = Tenants(network(), "tent", folder=tmp_path, budget=1.0)
    ids: list[int] = []
    for batch in STREAMS["north"]:
        serving = tenants.begin("north", batch)
        serving.finish()
        ids += serving.ids
    before = tenants.bounds("north")
    tenants.close()
    tenants = Tenants(network(), "tent", folder=tmp_path, budget=1.0)
    for sample_id in ids:
        assert tenants.feedback("north", sample_id, 0, tag=serving.tag)
    bounds = tenants.bounds("north")
    assert bounds != before
    tenants.close()
    model = guard(network(), "tent", budget=1.0)
    model.load(tmp_path / "north.safetensors")  # without the log, which has the labels too
    assert (model.accuracy().low, model.accuracy().high) == bounds["accuracy"]
    tenants = Tenants(network(), "tent", folder=tmp_path, budget=1.0)
    assert tenants.bounds("north") == bounds
    assert not any(tenants.feedback("north", sample_id, 0, tag=serving.tag) for sample_id in ids)
    tenants.close()


def test_ids_of_every_restore_take_their_labels_with_their_own_tag(tmp_path: Path) -> None:
    served = []
    for batch in STREAMS["north"][:3]:
        tenants = Tenants(network(), "tent", folder=tmp_path, budget=1.0)
        served.append(tenants.begin("north", batch))
        served[-1].finish()
        if len(served) < 3:
            tenants.close()
    assert len({serving.tag for serving in served}) == 3
    status = tenants.status("north")
    assert [status.tag_of(serving.ids[0]) for serving in served] == [serving.tag for serving in served]
    for serving, other in zip(served, [*served[1:], served[0]], strict=True):
        with pytest.raises(RefusedError, match="no prediction has this id"):
            tenants.feedback("north", serving.ids[0], 0, tag=other.tag)
        assert all(tenants.feedback("north", sample_id, 0, tag=serving.tag) for sample_id in serving.ids)
    tenants.close()
