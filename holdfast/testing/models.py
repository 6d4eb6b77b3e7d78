"""Contracts of a model: logits in eval mode, recognised inputs, and the same weights in every build."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.models import MODELS, Classifier, weights_digest
from holdfast.testing.comparison import assert_equal, logits_of
from holdfast.testing.contract import contract
from holdfast.testing.global_state import untouched_global_generators

TOLERANCE = 1e-4  # relative: kernels round differently for other batch sizes


def check_model(model: str | Callable[..., nn.Module], /, *, inputs: Tensor | None = None, **options: Any) -> None:
    """Run every contract of a model and print a line for each; one that fails raises an AssertionError.

    Args:
        model: a registered name, or a class or function; it is built twice.
        inputs: at least two samples; without them random ones are drawn in the shape that the network is found to take.
        **options: to build it with.

    >>> check_model("digits_resnet")  # doctest: +ELLIPSIS
    holds: ...
    """
    build = partial(MODELS[model] if isinstance(model, str) else model, **options)
    network = build()  # the first build may import a library that draws
    digest = weights_digest(network)
    with contract("Two builds have the same weights and draw nothing from a global generator."):
        with untouched_global_generators("building the model"):
            again = build()
        same = digest == weights_digest(again)
        assert same, "two builds have different weights; draw them under seeded_weights(seed)"
    with contract("All layers are in eval mode."):
        training = [name or "the network" for name, part in network.named_modules() if part.training]
        assert not training, f"{training[0]} is in training mode; call .eval() before returning the network"
    recognised = "Inputs are recognised, and logits are finite, repeatable and independent of the batch."
    with contract(recognised), untouched_global_generators("the model"):
        classifier = Classifier(network, example=inputs)
        _check_spec(network, classifier)
        samples = _samples(classifier) if inputs is None else inputs
        _check_logits(network, again, samples, classifier.num_classes)
    with contract("A forward pass changes no weights and no buffers."):
        assert weights_digest(network) == digest, "a forward pass in eval mode changes weights or buffers"


def _check_spec(network: nn.Module, classifier: Classifier) -> None:
    stated = getattr(network, "input_spec", None)
    if stated is not None:
        assert classifier.input_spec == stated, f"found to take {classifier.input_spec}, but input_spec is {stated}"
    assert classifier.input_spec.kind in ("image", "audio"), f"the inputs were not recognised: {classifier.input_spec}"
    assert classifier.num_classes > 1, f"the network has {classifier.num_classes} class"


def _samples(classifier: Classifier) -> Tensor:
    spec = classifier.input_spec
    samples = torch.rand(3, *spec.shape, generator=torch.Generator().manual_seed(0))
    return samples if spec.kind == "image" else samples - 0.5


@torch.no_grad()
def _check_logits(network: nn.Module, again: nn.Module, samples: Tensor, classes: int) -> None:
    kept = samples.clone()
    logits = logits_of(network(samples))
    assert logits.shape == (len(samples), classes), f"logits have shape {tuple(logits.shape)}, not (n, {classes})"
    assert torch.isfinite(logits).all(), "logits are not finite"
    assert torch.equal(samples, kept), "the network changes its inputs"
    assert_equal([logits], [logits_of(network(samples))], "the logits of two calls")
    assert_equal([logits], [logits_of(again(samples))], "the logits of two builds")
    assert_equal([logits], [logits_of(copy.deepcopy(network)(samples))], "the logits of a deep copy")
    alone = torch.cat([logits_of(network(sample[None])) for sample in samples])
    largest = float((alone - logits).abs().max())
    assert largest <= TOLERANCE * max(1.0, float(logits.abs().max())), (
        f"in eval mode the logits of a sample depend on its batch, by up to {largest:.2g}"
    )
