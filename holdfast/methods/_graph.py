"""The default as a graph of tensors, for torch.export and ONNX: inputs and state in, logits and state out."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from holdfast.anchor import taps_of
from holdfast.anchor.anchor import LONGEST_MEMORY, show_something
from holdfast.anchor.proportions import agreed_proportions, entropy_of
from holdfast.blocks.norm import pause
from holdfast.blocks.tap import explain, shift_of
from holdfast.methods.anchor import log_of
from holdfast.models.outputs import logits_of

if TYPE_CHECKING:
    from holdfast.methods.blend import Blend


class State(NamedTuple):
    """What the default keeps from batch to batch, with the same shapes at all times."""

    samples: Tensor  # that count for the moments, ()
    memory: Tensor  # how many of them may, ()
    mix: Tensor  # recent proportions of the classes that have source moments, (known classes,)
    moments: Tensor  # recent means and variances at all taps, (2, channels)
    recent: Tensor  # the anchor's probabilities for the last samples, (window, classes); the newest is last
    recent_source: Tensor  # the same by the source
    kept: Tensor  # how many of these rows hold samples, ()


class AdaptingGraph(nn.Module):
    """A step of `blend` in which the host asks for no value: `logits, *state = graph(inputs, *state)`.

    The first state is `initial`, that of the method now. Inputs are not checked.
    """

    def __init__(self, method: Blend) -> None:
        super().__init__()
        copied = copy.deepcopy(method).requires_grad_(False)
        self.source, self.network = copied.source.module.eval(), copied.model.module.eval()
        self._output, self._half_shift, self._window = copied.model.output, copied.half_shift, copied.window
        self._anchor = (copied.anchor,)  # in a tuple, since the graph's state is passed and not a part of it
        self._taps = tuple(tap for tap in taps_of(self.network).values() if tap.reference is not None)
        self.initial = self._state_of(copied)
        pause(self.network, False)
        self._forget()

    def _state_of(self, method: Blend) -> State:
        following, anchor, classes = method.anchor.following, method.anchor, method.model.num_classes
        device = method.model.device
        mix = following.class_shares if following.mix is None else following.mix
        moments = [
            (known.mean, known.var) if tap.site.mean is None or tap.site.var is None else (tap.site.mean, tap.site.var)
            for tap in self._taps
            if (known := tap.reference) is not None
        ]
        return State(
            torch.tensor(float(self._window), device=device)
            if following.samples is None
            else following.samples.clone(),
            torch.tensor(float(anchor.memory_samples), device=device),
            torch.zeros(0, device=device) if mix is None else mix.clone(),
            torch.stack([torch.cat(parts) for parts in zip(*moments, strict=True)]),
            self._rows(anchor.recent, classes, device),
            self._rows(anchor.recent_source, classes, device),
            torch.tensor(float(0 if anchor.recent is None else min(len(anchor.recent), self._window)), device=device),
        )

    def _rows(self, recent: Tensor | None, classes: int, device: torch.device) -> Tensor:
        last = torch.zeros(0, classes, device=device) if recent is None else recent[-self._window :]
        return torch.cat([torch.full((self._window - len(last), classes), 1 / classes, device=device), last])

    @torch.no_grad()
    def forward(
        self,
        inputs: Tensor,
        samples: Tensor,
        memory: Tensor,
        mix: Tensor,
        moments: Tensor,
        recent: Tensor,
        recent_source: Tensor,
        kept: Tensor,
    ) -> tuple[Tensor, ...]:
        """Predict a batch, and return the logits and the next state."""
        logits, after = self.step(inputs, State(samples, memory, mix, moments, recent, recent_source, kept), learn=True)
        return (logits, *after)

    def step(self, inputs: Tensor, state: State, *, learn: bool) -> tuple[Tensor, State]:
        """Return the logits of a batch and the state after it."""
        (anchor,), batch = self._anchor, inputs.shape[0]
        source, shown = logits_of(self.source(inputs), batch, self._output), show_something(inputs)
        self._take(state)
        if learn:
            anchor.following.count(shown.float(), state.memory, source.softmax(1))
        explain(self._taps)
        plain = anchor.scaled(logits_of(self.network(inputs), batch, self._output))
        believed = anchor.scaled(source)
        rows, source_rows = (
            torch.cat([before, now.where((shown & torch.isfinite(now).all(1))[:, None], 1 / now.shape[1])])
            for before, now in ((state.recent, plain), (state.recent_source, believed))
        )
        # The window counts, or the whole batch if that is more; the first rows may hold no sample yet.
        age = torch.arange(rows.shape[0] - 1, -1, -1, device=rows.device)
        counted = ((age < batch + state.kept) & ((age < self._window) | (age < batch))).to(rows.dtype)
        proportions = torch.full_like(rows, 1 / rows.shape[1])
        if anchor.proportions:
            proportions = agreed_proportions(rows, source_rows, window=self._window, counted=counted)
        shift = shift_of(self._taps)
        blended = _normalised(
            believed.lerp(plain, (shift / (shift + self._half_shift)).to(plain)) * proportions[-batch:]
        )
        weighed = _normalised(torch.cat([rows[:-batch], plain]) * proportions) * counted[:, None]
        number = counted.sum()
        scarcity = number.clamp_max(rows.shape[1]) / entropy_of(weighed.sum(0) / number).exp()
        after = self._taken(
            State(
                state.samples,
                (self._window * scarcity.square().clamp(1.0, float(LONGEST_MEMORY))).round(),
                state.mix,
                state.moments,
                rows[-self._window :],
                source_rows[-self._window :],
                (state.kept + batch).clamp_max(self._window),
            )
        )
        finite = torch.isfinite(plain).all()
        after = State(*(torch.where(finite, new, old) for new, old in zip(after, state, strict=True)))
        return torch.where(finite, log_of(blended).to(source.dtype), source), after

    def _take(self, state: State) -> None:
        """Put the state where the taps look for it."""
        self._anchor[0].following.return_to(state.samples, state.mix if state.mix.shape[0] else None)
        sizes = [tap.num_features for tap in self._taps]
        for tap, mean, var in zip(self._taps, *(part.split(sizes) for part in state.moments), strict=True):
            tap.site.return_to(mean, var)

    def _taken(self, state: State) -> State:
        """Return the state with what the taps have followed, which they forget."""
        following = self._anchor[0].following
        sites = [(tap.site.mean, tap.site.var) for tap in self._taps]
        moments = torch.stack([torch.cat([*parts]) for parts in zip(*sites, strict=True)])
        mix = state.mix if following.mix is None else following.mix
        samples = state.samples if following.samples is None else following.samples
        self._forget()
        return state._replace(samples=samples, mix=mix, moments=moments)

    def _forget(self) -> None:
        self._anchor[0].following.return_to(None, None)
        for tap in self._taps:
            tap.site.return_to(None, None)


class FrozenGraph(nn.Module):
    """What `blend` predicts now, as a module that keeps nothing."""

    def __init__(self, method: Blend) -> None:
        super().__init__()
        self.graph = AdaptingGraph(method)
        pause(self.graph.network)
        for name, value in self.graph.initial._asdict().items():
            self.register_buffer(name, value)

    @torch.no_grad()
    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits of a batch."""
        state = State(*(getattr(self, name) for name in State._fields))
        return self.graph.step(inputs, state, learn=False)[0]


def _normalised(weights: Tensor) -> Tensor:
    return weights / weights.sum(1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)
