"""A card: the moments of a network's own source data, in a small file that travels with its weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from holdfast.anchor.sites import Reference, measure_reference
from holdfast.blocks.tap import Moments
from holdfast.models.base import load
from holdfast.models.classifier import Classifier, weights_digest
from holdfast.models.inputs import inputs_alone
from holdfast.models.outputs import Output
from holdfast.models.preprocessing import preprocessing_of
from holdfast.state import SavedStateError, read_state, state_digest, write_state

FIELDS = ("mean", "var", "class_means", "class_squares")


@dataclass(frozen=True)
class Card:
    """The moments of a network's own source data, and which network they belong to."""

    reference: Reference  # moments of the activations, site by site
    weights: str  # digest of the network
    preprocessing: Mapping[str, Any] = field(default_factory=dict)  # of the inputs, where the network states it

    def check(self, weights: str) -> None:
        """Raise for a network with other weights."""
        if weights != self.weights:
            raise ValueError(
                f"the card belongs to a network with other weights ({self.weights[:8]}, here {weights[:8]}); make one "
                "for this network with holdfast.make_card(model, inputs)"
            )

    @property
    def digest(self) -> str:
        """The hex digest of the moments and of the network's weights."""
        return state_digest({"weights": self.weights, **self._moments()})

    def save(self, path: str | Path) -> None:
        """Write the card to one safetensors file: completely or not at all."""
        header = {
            "card": self.weights,
            "samples": self.reference.samples,
            "preprocessing": dict(self.preprocessing),
        }
        write_state(Path(path), self._moments(), header)

    def _moments(self) -> dict[str, Any]:
        sites = {
            name: {field: getattr(moments, field) for field in FIELDS} for name, moments in self.reference.sites.items()
        }
        return {"sites": sites, "classes": self.reference.classes, "class_shares": self.reference.class_shares}


def read_card(path: str | Path) -> Card:
    """Read the file that `Card.save` wrote."""
    try:
        state, header = read_state(Path(path))
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"there is no card at {path}; write one with `holdfast card MODEL DATA --out {path}`"
        ) from error
    if "card" not in header:
        raise SavedStateError(f"{path} is not a card; write one with `holdfast card MODEL DATA --out FILE`")
    try:
        sites = {name: Moments(*(parts[field] for field in FIELDS)) for name, parts in state["sites"].items()}
        reference = Reference(sites, state["classes"], state["class_shares"], int(header["samples"]))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise SavedStateError(f"{path} is damaged (its header has no such structure); use another copy") from error
    return Card(reference, str(header["card"]), header.get("preprocessing") or {})


def make_card(
    model: nn.Module | str,
    data: Iterable[Tensor | Sequence[Tensor] | Mapping[str, Tensor]],
    *,
    example: Tensor | Mapping[str, Tensor] | None = None,
    head: str | None = None,
    output: Output = None,
) -> Card:
    """Measure the moments of a network's own source data, which `adapt(…, card=…)` follows inputs from.

    Args:
        model: a network, or the name of one.
        data: batches of inputs like those that the network was trained on, without labels or with labels that are not
            used: a few hundred samples, of all classes.
        example: a batch of inputs, or a mapping with one for a network that takes it by name; only needed if probing
            the network does not find its inputs.
        head: name of the last layer; only needed if probing does not find it.
        output: where the logits are if the network returns a tuple, a mapping or a single logit: an index, a key,
            "binary", or a function.

    >>> import torch
    >>> from holdfast.models.tiny import tiny_resnet
    >>> make_card(tiny_resnet(), [torch.rand(32, 3, 32, 32)]).reference.samples
    32
    """
    network = load(model) if isinstance(model, str) else model
    classifier = Classifier(network, example=example, head=head, output=output)
    stated = preprocessing_of(network)
    reference = measure_reference(classifier, (inputs_alone(batch) for batch in data))
    return Card(reference, weights_digest(network), {} if stated is None else stated.to_dict())
