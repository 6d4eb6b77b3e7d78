"""Cards: the moments of source data, made once, kept in a file, and refused for a network with other weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import holdfast
from holdfast.models.tiny import tiny_resnet
from holdfast.state import SavedStateError


def test_a_card_is_read_as_it_was_saved(tmp_path: Path) -> None:
    network = tiny_resnet().eval()
    card = holdfast.make_card(network, [(torch.rand(24, 3, 32, 32), torch.zeros(24))])
    card.save(tmp_path / "tiny.card")
    again = holdfast.read_card(tmp_path / "tiny.card")
    assert (again.digest, again.weights, again.reference.samples) == (card.digest, card.weights, 24)
    assert again.digest != holdfast.make_card(network, [torch.rand(24, 3, 32, 32)]).digest


def test_a_card_does_what_its_samples_do(tmp_path: Path) -> None:
    network, shown = tiny_resnet().eval(), torch.rand(48, 3, 32, 32)
    holdfast.make_card(network, [shown]).save(tmp_path / "tiny.card")
    stream = [0.5 * torch.rand(16, 3, 32, 32) for _ in range(3)]
    by_samples, by_card = (
        holdfast.adapt(network, **given) for given in ({"source": [shown]}, {"card": tmp_path / "tiny.card"})
    )
    for inputs in stream:
        assert torch.equal(by_samples(inputs), by_card(inputs))
    assert not torch.equal(by_card(stream[-1]), network(stream[-1]))


def test_a_card_of_other_weights_and_a_damaged_file_are_refused(tmp_path: Path) -> None:
    card = holdfast.make_card(tiny_resnet(), [torch.rand(8, 3, 32, 32)])
    with pytest.raises(ValueError, match="other weights"):
        holdfast.adapt(tiny_resnet(seed=1), card=card)
    card.save(tmp_path / "tiny.card")
    content = (tmp_path / "tiny.card").read_bytes()
    (tmp_path / "tiny.card").write_bytes(content[:-9] + b"\x01" * 9)
    with pytest.raises(SavedStateError, match="damaged"):
        holdfast.read_card(tmp_path / "tiny.card")
