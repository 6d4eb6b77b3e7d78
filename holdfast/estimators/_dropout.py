"""Predictions under dropout, which hooks add to any network and remove again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from holdfast.blocks.norm import NormLayer, paused
from holdfast.estimators._held_out import source_error_of
from holdfast.estimators._observation import Observation
from holdfast.models.classifier import Classifier
from holdfast.models.partial_forward import Recorded, finished_parts, patched, recording, reusing
from holdfast.models.probing import untouched
from holdfast.options.ranges import Count, Momentum, Share
from holdfast.randomness import seed_for
from holdfast.state import Stateful

MOST_POINTS = 4  # as many as the official ResNets have


@dataclass(frozen=True)
class Points:
    """Where dropout is applied: to the outputs of the named parts, and optionally to the input of the head."""

    names: tuple[str, ...]
    head: bool = False
    finished: tuple[str, ...] = ()  # parts before the first point, which need not run again
    channels_last: bool = False  # store feature maps channels last from there on, which is faster on a CPU


class Dropout(Stateful):
    """Element-wise inverted dropout at chosen points, and the predictions of a network under many masks.

    `points` is "stages" (the ends of the main stages, at most four, and the input of the head after tokens), "features"
    (only the input of the head, which costs almost nothing) or a list of module names. The rate is a number, None for
    the published rate, which depends on the number of classes, or "fitted": the rate at which predictions on held-out
    source data differ as often as they are wrong. That error comes from labels, from `source_error` (a number, for
    unlabelled data) or, without both, from the confidence.
    """

    batches: int
    fitted_rate: float | None

    def __init__(
        self,
        *,
        points: Literal["stages", "features"] | Sequence[str],
        rate: Momentum | Literal["fitted"] | None,
        masks: Count,
        source_error: Share | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.points = points if isinstance(points, str) else tuple(points)
        self.rate, self.masks, self.source_error, self.seed = rate, masks, source_error, seed
        self.add_state("batches", 0)
        self.add_state("fitted_rate", None, kept=True)
        self._places: Points | None = None

    def points_in(self, model: Classifier) -> Points:
        """Return where dropout is applied in a network; found once, then kept."""
        if self._places is None:
            self._places = _with_finished_parts(model, _named_points(model, self.points))
        return self._places

    @property
    def needs(self) -> Literal["nothing", "inputs"]:
        """Source inputs if the rate is fitted."""
        return "inputs" if self.rate == "fitted" else "nothing"

    def rate_for(self, classes: int) -> float:
        """Return the fitted or given rate, else the published one for the nearest number of classes."""
        if self.fitted_rate is not None:
            return self.fitted_rate
        if isinstance(self.rate, (int, float)):
            return self.rate
        if self.points == "features":
            return 0.5
        return 0.4 if classes < 10**1.5 else 0.3 if classes < 10**2.5 else 0.2  # CIFAR10, CIFAR100, ImageNet

    def logits(self, seen: Observation) -> Tensor:
        """Return the logits under each mask, (masks, batch, classes), shared by estimators with the same masks."""
        rate, batch = self.rate_for(seen.model.num_classes), self.batches
        self.batches += 1
        key = ("dropout", self.points, rate, self.masks, self.seed, batch)
        return seen.once(key, lambda: self.passes(seen, rate, batch))

    def passes(self, seen: Observation, rate: float, batch: int) -> Tensor:
        """Predict again with the masks of one batch, from the first point on, or from the features on."""
        seeds = (seed_for(self.seed, "dropout", batch * self.masks + mask) for mask in range(self.masks))
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        points = self.points_in(seen.model)
        with paused(seen.model):
            if not points.names:
                return _from_features(seen, rate, generators)
            outputs = _known_outputs(seen, points)
            # On a CPU one pass for each mask is faster than one for all, because it fits into the caches.
            together = 1 if seen.inputs.device.type == "cpu" else self.masks
            groups = (generators[first : first + together] for first in range(0, self.masks, together))
            return torch.cat([predict_again(seen.model, seen.inputs, outputs, points, rate, group) for group in groups])

    def fit(self, batches: Sequence[tuple[Tensor, Tensor | None]], model: Classifier) -> None:
        """Find by bisection the rate at which disagreement equals the error (after Lee et al., CVPR 2024)."""
        error = source_error_of(batches, model) if self.source_error is None else self.source_error
        observations = [_clean(inputs, model, self.points_in(model)) for inputs, _ in batches]
        lowest, highest = 0.0, 0.95
        for _ in range(8):
            self.fitted_rate = (lowest + highest) / 2
            if self._disagreement(observations, self.fitted_rate) > error:
                highest = self.fitted_rate
            else:
                lowest = self.fitted_rate

    def _disagreement(self, observations: Sequence[Observation], rate: float) -> float:
        agreeing = (
            len(seen.inputs) * seen.agreement(self.passes(seen, rate, number))
            for number, seen in enumerate(observations)
        )
        return 1 - sum(agreeing) / sum(len(seen.inputs) for seen in observations)


def find_points(model: Classifier) -> Points:
    """Return the ends of a network's main stages, at most four; and the head's input after tokens or without stages.

    >>> from holdfast.models.tiny import tiny_resnet, tiny_vit
    >>> find_points(Classifier(tiny_resnet()))
    Points(names=('stages.0', 'stages.1'), head=False, finished=(), channels_last=False)
    >>> find_points(Classifier(tiny_vit()))
    Points(names=('blocks.0', 'blocks.1'), head=True, finished=(), channels_last=False)
    """
    stages = [name for name, _ in model.stages()]
    many = max(len(stages), MOST_POINTS)
    ends = [-(-many * quarter // MOST_POINTS) for quarter in range(1, MOST_POINTS + 1)]
    names = tuple(stages[end - 1] for end in ends if end <= len(stages))
    tokens = bool(names) and _output_axes(model, names[-1]) == 3
    return Points(names, head=model.head is not None and (tokens or not names))


def drop(values: Tensor, rate: float, generators: Sequence[torch.Generator]) -> Tensor:
    """Set a share of the values to 0 and scale up the rest, with one generator for each equal part of the batch.

    >>> dropped = drop(torch.ones(4, 1000), 0.25, [torch.Generator().manual_seed(0)])
    >>> bool(abs((dropped == 0).float().mean() - 0.25) < 0.02), float(dropped.amax())
    (True, 1.3333333730697632)
    """
    # 16 bits for each element, drawn 64 at a time on the CPU: fast, and the same masks on every device.
    threshold, each = min(round(rate * 2**16), 2**16 - 1) - 2**15, values.numel() // len(generators)
    words = torch.empty(len(generators), -(-each // 4), dtype=torch.int64, device="cpu")
    for row, generator in zip(words, generators, strict=True):
        row.random_(-(2**63), None, generator=generator)
    channels_last = values.dim() == 4 and not values.is_contiguous()
    stored = values.permute(0, 2, 3, 1) if channels_last else values  # in the order of memory
    kept = words.view(torch.int16)[:, :each].reshape(stored.shape) >= threshold
    # Multiplying in place takes half the time of masking.
    dropped = kept.to(values.device, values.dtype).mul_(stored).mul_(1 / (1 - rate))
    return dropped.permute(0, 3, 1, 2) if channels_last else dropped


def predict_again(
    model: Classifier,
    inputs: Tensor,
    outputs: dict[str, Tensor],
    points: Points,
    rate: float,
    generators: Sequence[torch.Generator],
) -> Tensor:
    """Return the logits under the masks of these generators, in one pass, (masks, batch, classes)."""
    masks = len(generators)

    def dropped(_: nn.Module, _args: Any, output: Any) -> Any:
        if isinstance(output, tuple):  # layers of some transformers return more than tokens
            return drop(output[0], rate, generators), *output[1:]
        if points.channels_last and output.dim() == 4:
            output = output.contiguous(memory_format=torch.channels_last)
        return drop(output, rate, generators)

    with ExitStack() as stack:
        repeated = {name: _repeated(output, masks) for name, output in outputs.items()}
        stack.enter_context(reusing(model.module, repeated))
        if masks > 1:
            stack.enter_context(_separate_statistics(model, masks))
        for name in points.names:
            stack.enter_context(model.module.get_submodule(name).register_forward_hook(dropped))
        if points.head and model.head is not None:
            hook = model.head.register_forward_pre_hook(lambda _, args: drop(args[0], rate, generators))
            stack.enter_context(hook)
        logits: Tensor = model(_repeated(inputs, masks))
    return logits.view(masks, len(inputs), -1)


def _named_points(model: Classifier, points: str | Sequence[str]) -> Points:
    if points == "features" and model.head is not None:
        return Points((), head=True)
    if points == "stages":
        usable = find_points(model)
        if usable.names or usable.head:
            return usable
    elif not isinstance(points, str):
        for name in points:
            model.module.get_submodule(name)  # torch's error names the missing part
        return Points(tuple(points))
    raise ValueError("found no point for dropout in this network; name the modules to apply it after with points=[...]")


def _with_finished_parts(model: Classifier, points: Points) -> Points:
    """Add the parts that need not run again, if logits on two random inputs stay bit-equal without them."""
    if not points.names:
        return points
    inputs = model.trial_inputs()
    with untouched(model), paused(model), model.uncounted():
        finished = finished_parts(model.module, inputs, points.names[0])
        with recording(model, inputs, finished) as recorded:
            model(inputs)

        def logits_at(points: Points) -> list[Tensor]:
            """Run whole, then twice with the record: a layer that works in place changes it for the second time."""
            return [
                predict_again(model, inputs, outputs, points, 0.5, [torch.Generator().manual_seed(0)])
                for outputs in ({}, recorded.outputs, recorded.outputs)
            ]

        points = replace(points, channels_last=inputs.device.type == "cpu")
        try:
            whole, *partial_passes = logits_at(points)
        except RuntimeError:  # it flattens its feature maps with view()
            points = replace(points, channels_last=False)
            whole, *partial_passes = logits_at(points)
    same = all(torch.equal(whole, again) for again in partial_passes)
    return replace(points, finished=finished if same else ())


def _output_axes(model: Classifier, name: str) -> int:
    inputs = model.trial_inputs()
    axes: list[int] = []

    def note(_: nn.Module, _args: Any, output: Any) -> None:
        axes.append((output[0] if isinstance(output, tuple) else output).dim())

    with model.module.get_submodule(name).register_forward_hook(note), untouched(model), paused(model):
        model.module(inputs)
    return axes[-1]


def _known_outputs(seen: Observation, points: Points) -> dict[str, Tensor]:
    """Return the outputs of the finished parts; run them now if the prediction was not one plain pass."""
    recorded = seen.recorded
    if not set(points.finished) <= set(recorded.outputs):
        recorded = seen.once(("record", points.finished), lambda: _record(seen, points.finished))
    return {name: recorded.outputs[name] for name in points.finished}


def _record(seen: Observation, names: Sequence[str]) -> Recorded:
    with recording(seen.model, seen.inputs, names) as recorded:
        seen.model(seen.inputs)
    return recorded


def _from_features(seen: Observation, rate: float, generators: Sequence[torch.Generator]) -> Tensor:
    features = seen.recorded.features
    if features is None:
        features = seen.once("features", lambda: seen.model.encode(seen.inputs))
    logits = seen.model.classify(drop(_repeated(features, len(generators)), rate, generators))
    return logits.view(len(generators), len(features), -1)


def _clean(inputs: Tensor, model: Classifier, points: Points) -> Observation:
    with paused(model), recording(model, inputs, points.finished) as recorded:
        logits = model(inputs)
    return Observation(inputs, logits, model, recorded=recorded)


def _repeated(values: Tensor, times: int) -> Tensor:
    return values if times == 1 else values.repeat(times, *[1] * (values.dim() - 1))


@contextmanager
def _separate_statistics(model: Classifier, masks: int) -> Iterator[None]:
    """Let layers with batch statistics see the samples of one mask at a time."""

    def each(forward: Callable[[Tensor], Tensor], features: Tensor) -> Tensor:
        return torch.cat([forward(part) for part in features.chunk(masks)])

    with ExitStack() as stack:
        for layer in model.modules():
            if isinstance(layer, (NormLayer, nn.modules.batchnorm._BatchNorm)):
                stack.enter_context(patched(layer, partial(each, layer.forward)))
        yield
