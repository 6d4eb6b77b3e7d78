"""ReservoirTTA: one set of weights of a base method for each style of inputs that the stream has shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call

from holdfast.blocks.losses import entropy
from holdfast.blocks.norm import source_statistics
from holdfast.blocks.styles import StyleClusters, style_of
from holdfast.methods._base import METHODS, Method, PredictOnly, preset_for
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import Count, NotNegative, Share
from holdfast.records import Update
from holdfast.registry import options_of

STYLE_STAGES = 2  # besides the first layer


@METHODS.register("reservoir")
class Reservoir(Method):
    """Keep a bank of weights for a base method, one for each style of batches; predict with their weighted average.

    The style of a batch is the spread of its channels in the first layers of the source network, where the official
    code uses a VGG-19. A style that is further from all others than source batches are from each other opens a new
    cluster, with the weights that are certain and diverse on it. The average counts each set of weights by how near its
    cluster is; only the nearest is trained. `base` is any method by name with `base_options`; bank entries hold all
    that the base method changes, without their history of gradients, which the official code keeps.
    """

    predicts_jointly = True  # the style is that of the batch
    citation = "Vray et al., arXiv 2505.14511"
    needs_source = True
    passes = "1 forward, part of a second, and the passes of the base method; 1 more for each set at a new style"
    keeps = "up to max_models sets of the base method's weights and optimiser; buffer_size styles"
    use_when = "domains recur: what was learnt on the first visit is used on the next"
    fails_when = "a batch mixes domains, so that its style is that of none; or every domain is seen once"
    meanings: ClassVar = {
        "base": "name of the method that trains each set of weights",
        "base_options": "options of that method",
        "max_models": "largest number of sets of weights",
        "buffer_size": "number of styles kept to form the clusters",
        "quantile": "of the distances between source batches beyond which a style is new",
        "source_styles": "number of source batches that define this distance",
        "centroid_lr": "learning rate of the cluster centres",
    }
    bank: list[dict[str, Any]]
    current: int
    largest_batch: int

    def __init__(
        self,
        model: Classifier,
        *,
        base: str = "tent",
        base_options: Mapping[str, Any] | None = None,
        max_models: Count = 16,
        buffer_size: Count = 1024,
        quantile: Share = 0.999,
        source_styles: Count = 1000,
        centroid_lr: NotNegative = 1e-4,
        seed: int = 0,
    ) -> None:
        if buffer_size < max_models:
            raise ValueError(f"buffer_size must be at least max_models, got {buffer_size} and {max_models}")
        kind = METHODS[base]
        preset = preset_for(kind, model)
        known = {name: value for name, value in kind.presets.get(preset or "", {}).items() if name in options_of(kind)}
        self.base, self.base_options = base, {**known, "seed": seed, **(base_options or {})}
        super().__init__(model, seed=seed)
        # Torch must know the network as part of the base alone, or a state would hold and set its weights twice.
        del self.model
        object.__setattr__(self, "model", model)
        self.keep_origin()
        self.max_models, self.buffer_size, self.quantile = max_models, buffer_size, quantile
        self.source_styles, self.centroid_lr = source_styles, centroid_lr
        self.clusters = StyleClusters(max_clusters=max_models, buffer_size=buffer_size, lr=centroid_lr, seed=seed)
        self.add_state("bank", [{}])  # snapshots of the base method; that of the current set is not up to date
        self.add_state("current", 0)
        self.add_state("largest_batch", 0)
        self._assigned = 0  # to the newest batch

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Let the base method prepare the network and train; find the layers that show the style."""
        self.inner = METHODS[self.base](model, **self.base_options)
        self.predicts = self.inner.predicts
        leaves = [name for name, part in model.module.named_modules() if _has_weights(part)]
        stages = [name for name, _ in model.stages()[:STYLE_STAGES]] or leaves[1 : 1 + STYLE_STAGES]
        self._layers = [*leaves[:1], *stages]
        return []

    def fit_source(self, batches: Iterable[Tensor]) -> None:
        """Store the mean style of source batches and how far they are from each other; fit the base method."""
        shown = list(batches)
        if not shown:
            raise ValueError("source holds no batch; pass source=[inputs, …] with unlabelled source inputs")
        styles = torch.stack([self.style(inputs) for inputs in shown])
        self.clusters.fit(styles, share=self.quantile, vectors=max(self.source_styles, len(shown)))
        if self.inner.needs_source:
            self.inner.fit_source(shown)

    @torch.no_grad()
    def style(self, inputs: Tensor) -> Tensor:
        """Return the style of a batch, from the first layers of the source network."""
        outputs: dict[str, Tensor] = {}

        def keep(name: str) -> Callable[[nn.Module, Any, Any], None]:
            def note(_: nn.Module, _args: Any, output: Any) -> None:
                outputs[name] = output
                if len(outputs) == len(self._layers):
                    raise _EnoughError

            return note

        now = self.moving()
        origin = {id(now[name]): tensor for name, tensor in self.origin.items()}
        source = {name: origin[id(weight)] for name, weight in self.model.named_parameters() if id(weight) in origin}
        with ExitStack() as hooks:
            hooks.enter_context(source_statistics(self.model))
            for name in self._layers:
                hooks.callback(self.model.module.get_submodule(name).register_forward_hook(keep(name)).remove)
            with suppress(_EnoughError):
                functional_call(self.model, source, inputs)
        feature_maps = [output for output in outputs.values() if isinstance(output, Tensor)]
        return style_of(feature_maps, channels_last=self.model.normalisation == "layer")

    def predict(self, inputs: Tensor) -> Tensor:
        """Return the logits of the average of all sets of weights, by how near their clusters are."""
        if self.clusters.source is None:
            return self.inner.predict(inputs)
        style = self.style(inputs)
        if self.paused:
            return self.predict_average(inputs, self.clusters.probabilities(style))
        self.largest_batch = max(self.largest_batch, len(inputs))
        if len(inputs) == self.largest_batch and self.clusters.is_new(style):
            self.bank = [*self.bank, self._best_for(inputs)]
            self.clusters.open(style)
        probs = self.clusters.move(style)
        self._assigned = int(probs.argmax())
        if len(self.bank) > 1:
            return self.predict_average(inputs, probs)
        with torch.enable_grad():  # one set is its own average: the base method adapts from this prediction
            return self.inner.predict(inputs)

    def adapt(self, inputs: Tensor, logits: Tensor | None = None) -> Update:
        """Adapt the set of weights whose cluster is nearest to the batch."""
        if self.paused:
            return Update()
        self.batches += 1
        if logits is None:
            logits = self.predict(inputs)
        if self._assigned != self.current:
            self.bank = self.snapshots()
            self.current = self._assigned
            self.inner.return_to(self.bank[self.current])
        return self.inner.adapt(inputs, logits if len(self.bank) == 1 else None)

    def snapshots(self) -> list[dict[str, Any]]:
        """Return the bank with an up-to-date snapshot of the current set."""
        return [*self.bank[: self.current], self.inner.snapshot(), *self.bank[self.current + 1 :]]

    def _best_for(self, inputs: Tensor) -> dict[str, Any]:
        """Return the snapshot whose predictions are the most certain and diverse on a batch."""
        bank = self.snapshots()
        scores = []
        for entry in bank:
            with self._weights(entry["tensors"]):
                logits = self.inner.predict(inputs)
            mean = logits.softmax(1).mean(0, keepdim=True)
            scores.append(float(entropy(logits).mean() - entropy(mean.log()).mean()))
        return bank[scores.index(min(scores))]

    def predict_average(self, inputs: Tensor, probs: Tensor) -> Tensor:
        """Return the logits of the weighted average."""
        entries = [entry["tensors"] for entry in self.snapshots()]
        names = {name for entry in entries for name, tensor in entry.items() if tensor.is_floating_point()}
        origin = self.inner.origin
        average = [torch.zeros_like(origin[name]) for name in names]
        for share, entry in zip(probs.tolist(), entries, strict=True) if names else ():
            torch._foreach_add_(average, [entry.get(name, origin[name]) for name in names], alpha=share)
        with self._weights(dict(zip(names, average, strict=True))):
            return self.inner.predict(inputs)

    @contextmanager
    def _weights(self, values: Mapping[str, Tensor]) -> Iterator[None]:
        """Give the network other weights inside the block, without gradients or learning."""
        moving, was_paused = self.inner.moving(), self.inner.paused
        before = {name: moving[name].detach().clone() for name in self.inner.origin}
        with torch.no_grad():
            self._copy(moving, {**self.inner.origin, **values})
            self.inner.pause()
            try:
                yield
            finally:
                self.inner.pause(was_paused)
                self._copy(moving, before)

    @staticmethod
    def _copy(moving: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
        if values:
            torch._foreach_copy_([moving[name] for name in values], list(values.values()))

    def reset_weights(self) -> None:
        """Return the weights of the base method to the source too."""
        super().reset_weights()
        self.inner.reset_weights()

    def export(self) -> nn.Module:
        """Return the network with its bank of weights as one module that no longer adapts."""
        return PredictOnly(self)

    @property
    def predictor(self) -> Classifier:
        """The network of the base method that predicts."""
        return self.inner.predictor

    def pause(self, pausing: bool = True) -> None:
        """Predict without changing anything from now on, or learn again."""
        if pausing != self.paused:
            super().pause(pausing)
            self.inner.pause(pausing)

    @property
    def lr_scale(self) -> float:
        """A factor on the learning rates of the base method."""
        return self.inner.lr_scale

    def scale_rates(self, scale: float) -> None:
        """Multiply all learning rates by a factor from now on."""
        self.inner.scale_rates(scale)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The parameter groups of the base method's optimiser."""
        return self.inner.param_groups

    def gauges(self) -> Mapping[str, float]:
        """Return the number of sets, which one was adapted, and the gauges of the base method."""
        return {**self.inner.gauges(), "models": float(len(self.clusters)), "model": float(self.current)}


class _EnoughError(Exception):
    """Ends a forward pass after the layers that show the style."""


def _has_weights(part: nn.Module) -> bool:
    return next(part.children(), None) is None and any(True for _ in part.parameters(recurse=False))
