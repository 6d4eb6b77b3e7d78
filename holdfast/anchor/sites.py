"""Where a network is tapped, and the moments of the source's own data there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from holdfast.anchor.identity import prove_identity
from holdfast.blocks.norm import BatchNormLayer, NormLayer
from holdfast.blocks.tap import Following, Moments, OutputTap, Tap, fits, moments_by_sample, source_moments
from holdfast.blocks.wrapping import has_batch_norm, norm_layers, replace_batch_norm
from holdfast.models.classifier import Classifier
from holdfast.models.input_checks import check_source, explain_inputs
from holdfast.models.probing import untouched

MOST_SAMPLES = 1024  # source samples whose moments are kept: more change nothing
WITHOUT_NORM = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)
OF_NO_CLASS = -1  # for rows that are not those of one sample


@dataclass(frozen=True)
class Reference:
    """The moments of the source's own data at each tapped layer, by its name."""

    sites: dict[str, Moments]
    classes: Tensor  # predicted in the source data often enough to have moments of their own, (classes,)
    class_shares: Tensor  # (classes,)
    samples: int


def follow_inputs(network: Classifier, following: Following, *, source_share: float) -> None:
    """Tap every normalisation layer of a network, or every layer with weights if it has none.

    A tapped network predicts as before until it is told to follow a batch (`Following.count`). A BatchNorm layer is
    followed from the statistics that it stores until the source's own are known (`refer`); other taps wait for them.
    """
    if not 0 <= source_share <= 1:
        raise ValueError(f"source_share must be between 0 and 1, got {source_share}")

    def stand_in(layer: BatchNormLayer) -> nn.Module:
        if layer.running_mean is None:  # it always uses batch statistics
            return cast(nn.Module, layer)
        return Tap(layer, following, source_share=source_share)

    outputs = _outputs(network)
    if has_batch_norm(network):
        replace_batch_norm(network, stand_in)
    for layer, channels, axis in outputs:
        tap = OutputTap(channels, following, source_share=source_share, axis=axis).to(network.device)
        layer.add_module("tap", tap)
        layer.register_forward_hook(tap.behind)


def taps_of(network: nn.Module) -> dict[str, Tap]:
    """Return the taps of a network by the name of the tapped layer."""
    module = network.module if isinstance(network, Classifier) else network
    return {
        name.removesuffix(".statistics").removesuffix(".tap"): part
        for name, part in module.named_modules()
        if isinstance(part, Tap)
    }


def follows(network: nn.Module) -> bool:
    """Return whether a network has a tap with moments to follow from: given ones, or those that BatchNorm stores."""
    return any(tap.reference is not None for tap in taps_of(network).values())


def is_referred(network: nn.Module) -> bool:
    """Return whether the taps of a network know the moments of the source's own data."""
    return bool([tap for tap in taps_of(network).values() if tap.site.reference is not None])


def is_blind(network: Classifier, reference: Reference) -> bool:
    """Return whether every layer with source moments gives each sample the same ones, as InstanceNorm does.

    >>> given = torch.rand(8, 3, 4, 4)
    >>> network = Classifier(nn.Sequential(nn.InstanceNorm2d(3), nn.Flatten(), nn.Linear(48, 5)), example=given)
    >>> is_blind(network, measure_reference(network, [given]))
    True
    """
    layers = [network.module.get_submodule(name) for name in reference.sites]
    instance = nn.modules.instancenorm._InstanceNorm
    return bool(layers) and all(isinstance(layer, instance) and layer.running_mean is None for layer in layers)


def refer(network: Classifier, following: Following, reference: Reference) -> None:
    """Give the taps of a network the moments of the source's own data; layers without any are left as they are.

    With recent moments equal to these a tapped network computes what it did before. That is tried, and the first layer
    where it does not hold is named in a ValueError.
    """
    taps = taps_of(network)
    for name, moments in reference.sites.items():
        if name not in taps or len(moments.mean) != taps[name].num_features:
            raise ValueError(
                f"the card has moments of a layer {name!r} that this network does not have; make it again with "
                "holdfast.make_card"
            )
    for name, moments in reference.sites.items():
        taps[name].refer_to(moments)
    following.know(reference.classes, reference.class_shares)
    prove_identity(network, taps)


@torch.no_grad()
def measure_reference(network: Classifier, batches: Iterable[Tensor]) -> Reference:
    """Return the moments of unlabelled source inputs at every layer that `follow_inputs` taps.

    >>> from holdfast.models.tiny import tiny_resnet
    >>> found = measure_reference(Classifier(tiny_resnet().eval()), [torch.rand(16, 3, 32, 32)])
    >>> found.samples, len(found.sites) > 3
    (16, True)
    """
    seen: dict[str, list[tuple[Tensor, Tensor, Tensor]]] = {}  # means, variances and predicted classes
    repeated: set[str] = set()  # layers that a pass calls more than once: their calls have moments of their own
    predictions: list[Tensor] = []
    samples = 0
    with untouched(network.module), _recording(network) as now:
        for inputs in batches:
            check_source(inputs, network.input_spec, network.input_dtype)
            usable = torch.isfinite(inputs.flatten(1)).all(1)
            inputs = inputs[usable][: MOST_SAMPLES - samples].to(network.device, network.input_dtype)
            if not len(inputs):
                continue
            predicted = _predicted(network, inputs)
            names = [name for name, _, _ in now]
            repeated |= {name for name in names if names.count(name) > 1}
            for name, means, variances in now:
                seen.setdefault(name, []).append((means, variances, _classes_of_rows(predicted, len(means))))
            now.clear()
            predictions.append(predicted)
            samples += len(inputs)
            if samples >= MOST_SAMPLES:
                break
    if not samples:
        raise ValueError(
            "there are no source samples with finite values to measure; pass source=[inputs, …], a few hundred are "
            "enough"
        )
    classes, shares = Following.known(torch.cat(predictions))
    sites = {}
    for name, parts in seen.items():
        if name in repeated:
            continue
        means, variances, rows = (torch.cat(part) for part in zip(*parts, strict=True))
        sites[name] = source_moments(means, variances, rows, classes)
    finite = {name: moments for name, moments in sites.items() if torch.isfinite(moments.mean + moments.var).all()}
    return Reference(finite, classes, shares, samples)


def _predicted(network: Classifier, inputs: Tensor) -> Tensor:
    """Return the predicted classes of source inputs, or raise if the network cannot take them."""
    try:
        predicted: Tensor = network(inputs).argmax(1)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        reason = explain_inputs(inputs, network.input_spec, network.input_dtype) or str(error)
        raise ValueError(f"the network cannot take the source samples: {reason}") from error
    return predicted


def _classes_of_rows(predicted: Tensor, rows: int) -> Tensor:
    """Return the predicted class of each row of a layer; windows of a sample may be rows of their own.

    >>> _classes_of_rows(torch.tensor([3, 5]), 4), _classes_of_rows(torch.tensor([3, 5]), 3)
    (tensor([3, 3, 5, 5]), tensor([-1, -1, -1]))
    """
    if rows % len(predicted):  # the first axis is another, such as time
        return predicted.new_full((rows,), OF_NO_CLASS)
    return predicted.repeat_interleave(rows // len(predicted))


@contextmanager
def _recording(network: Classifier) -> Iterator[list[tuple[str, Tensor, Tensor]]]:
    """Collect the moments of each sample at each layer to measure, by name, while inputs go through the network."""
    now: list[tuple[str, Tensor, Tensor]] = []

    def keep(name: str, features: Any, channels: int, axis: int) -> None:
        if isinstance(features, Tensor) and features.is_floating_point() and fits(features, channels, axis):
            now.append((name, *moments_by_sample(features, axis)))

    with ExitStack() as hooks:
        for name, layer, channels, axis in _measured(network):
            if axis is None:
                hook = layer.register_forward_pre_hook(
                    lambda _, args, name=name, channels=channels: keep(name, args[0], channels, 1)
                )
            else:
                hook = layer.register_forward_hook(
                    lambda _, __, out, name=name, channels=channels, axis=axis: keep(name, out, channels, axis)
                )
            hooks.callback(hook.remove)
        yield now


def _measured(network: Classifier) -> Iterator[tuple[str, nn.Module, int, int | None]]:
    """Yield the layers to measure by name; those with an axis by their outputs, the others by their inputs."""
    outputs = {id(layer): (channels, axis) for layer, channels, axis in _outputs(network)}
    for name, part in network.module.named_modules():
        if id(part) in outputs:
            yield name, part, *outputs[id(part)]
        elif isinstance(mean := getattr(part, "running_mean", None), Tensor) and _stores(part):
            yield name, part, len(mean), None


def _outputs(network: Classifier) -> list[tuple[nn.Module, int, int]]:
    """Return the layers whose outputs are tapped, with the number and the axis of their channels."""
    norms = [layer for _, layer in norm_layers(network.module)]
    kept = [layer for layer in norms if not _stores(layer)]
    if not norms:
        kept = [
            part for part in network.module.modules() if isinstance(part, WITHOUT_NORM) and part is not network.head
        ]
    axes = {id(layer): axis for layer in kept if (axis := _declared_axis(layer)) is not None}
    unknown = [layer for layer in kept if id(layer) not in axes]
    axes.update(_observed_axes(network, unknown) if unknown else {})
    return [
        (layer, channels, axes[id(layer)])
        for layer in kept
        if id(layer) in axes and (channels := _declared_channels(layer)) is not None
    ]


def _stores(layer: nn.Module) -> bool:
    """Return whether a layer is normalised with statistics that it stores, as BatchNorm layers are."""
    if isinstance(layer, nn.modules.instancenorm._InstanceNorm):
        return False
    stored = {name for name, buffer in layer._buffers.items() if buffer is not None}
    return isinstance(layer, (NormLayer, nn.modules.batchnorm._BatchNorm)) or {"running_mean", "running_var"} <= stored


def _declared_channels(layer: nn.Module) -> int | None:
    """Return the number of channels in the output of a layer."""
    if isinstance(layer, nn.GroupNorm):
        return layer.num_channels
    if isinstance(layer, nn.modules.instancenorm._InstanceNorm):
        return layer.num_features
    if isinstance(layer, nn.Linear):
        return layer.out_features
    if isinstance(layer, WITHOUT_NORM):
        return cast(int, layer.out_channels)
    if isinstance(layer, (nn.LayerNorm, nn.RMSNorm)):
        return layer.normalized_shape[0]
    weight = getattr(layer, "weight", None)
    return weight.numel() if isinstance(weight, Tensor) else None


def _declared_axis(layer: nn.Module) -> int | None:
    """Return the axis of the channels of a layer of torch; a subclass may turn its output."""
    if not type(layer).__module__.startswith("torch.nn."):
        return None
    if isinstance(layer, (nn.LayerNorm, nn.RMSNorm)):
        return -len(layer.normalized_shape)
    return -1 if isinstance(layer, nn.Linear) else 1


@torch.no_grad()
def _observed_axes(network: Classifier, layers: list[nn.Module]) -> dict[int, int]:
    """Return the axis of the channels in the output of other layers, second or last, by trying the network."""
    observed: dict[int, int] = {}

    def note(layer: nn.Module, args: Any, named: Any, output: Any) -> None:
        channels = _declared_channels(layer)
        if isinstance(output, Tensor) and channels is not None:
            axes = [axis for axis in (1, -1) if fits(output, channels, axis)]
            if len(axes) > 1 and output.dim() > 2:
                axes = [axis for axis in axes if _moves_only(layer, args, named, output, axis)] or axes
            if axes:
                observed[id(layer)] = axes[0] if output.dim() > 3 else axes[-1]

    with untouched(network.module), ExitStack() as hooks:
        for layer in layers:
            hooks.callback(layer.register_forward_hook(note, with_kwargs=True).remove)
        network.module(network.trial_inputs())
    return observed


def _moves_only(layer: nn.Module, args: Any, named: Any, output: Tensor, axis: int) -> bool:
    """Return whether another bias (or scale) of the first channel changes only the first entries along an axis."""
    changed = deepcopy(layer)
    parameters = dict(changed.named_parameters(recurse=False))
    moved = parameters.get("bias", parameters.get("weight"))
    if moved is None:
        return False
    moved.reshape(-1)[0] += 1
    difference = (changed.forward(*args, **named) - output).movedim(axis, 0)
    return bool(difference[0].any()) and not bool(difference[1:].any())
