"""Prove that taps change nothing where recent moments are those of the source's own data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor

from holdfast.blocks.comparing import close
from holdfast.blocks.norm import paused, source_statistics
from holdfast.blocks.tap import Tap
from holdfast.models.classifier import Classifier
from holdfast.models.probing import untouched


def prove_identity(network: Classifier, taps: Mapping[str, Tap]) -> None:
    """Raise a ValueError that names the first tap that changes anything while recent moments are the source's."""
    arrived: list[str] = []
    changed: list[str] = []

    def compare(name: str, tap: Tap, features: Tensor, output: Tensor) -> None:
        if not _same(output, tap.by_source(features)):
            changed.append(name)

    with source_statistics(network):
        expected = _trial(network)
    with _at_reference(taps), ExitStack() as hooks:
        for name, tap in taps.items():
            hooks.callback(tap.register_forward_pre_hook(lambda _, __, name=name: arrived.append(name)).remove)
            after = tap.register_forward_hook(lambda tap, args, out, name=name: compare(name, tap, args[0], out))
            hooks.callback(after.remove)
        try:
            actual = _trial(network)
        except (RuntimeError, ValueError, IndexError) as error:
            raise ValueError(_refusal(network, arrived[-1:], str(error))) from error
    if changed or not _same(actual, expected):
        raise ValueError(_refusal(network, changed, "its output changes" if changed else "its logits change"))


def _trial(network: Classifier) -> Tensor:
    """Return the logits of trial inputs without following them."""
    inputs, module = network.trial_inputs(), network.module
    with untouched(module), paused(network):
        torch.default_generator.manual_seed(0)  # for networks that draw at random even in eval mode
        return network.read(module(inputs), len(inputs))


@contextmanager
def _at_reference(taps: Mapping[str, Tap]) -> Iterator[None]:
    """Let recent moments be those of the source inside the block."""
    before = [(tap.site, tap.site.mean, tap.site.var) for tap in taps.values()]
    for tap in taps.values():
        if tap.reference is not None:
            tap.site.return_to(tap.reference.mean, tap.reference.var)
    try:
        yield
    finally:
        for site, mean, var in before:
            site.return_to(mean, var)


def _refusal(network: Classifier, layers: Sequence[str], why: str) -> str:
    where = f"layer {layers[0]!r}" if layers else type(network.module).__name__
    return (
        f"following the inputs of {where} would change this network even where they are the source's own ({why}); "
        "check the source samples or the card, or choose a method that changes no layer, such as 'neo', 't3a' or 'lame'"
    )


def _same(actual: Tensor, expected: Tensor) -> bool:
    return actual.shape == expected.shape and close(actual, expected)
