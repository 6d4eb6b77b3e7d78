"""The default as a graph of tensors, for torch.export and ONNX: inputs and state in, logits and state out."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from holdfast.anchor import agreed, proportions_by_evidence, taps_of
from holdfast.anchor.anchor import LONGEST_MEMORY, shift_of, show_something
from holdfast.anchor.proportions import entropy_of
from holdfast.blocks.norm import pause
from holdfast.methods.anchor import log_of

if TYPE_CHECKING:
    from holdfast.methods.blend import Blend

__all__ = ["AdaptingGraph", "FrozenGraph", "State"]


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
    """A step of `blend` without values that the host asks for: `logits, *state = graph(inputs, *state)`.

    The first state is that of the method now (`state`). Checks of inputs stay with whoever calls it.
    """

    def __init__(self, method: Blend) -> None:
        super().__init__()
        copied = copy.deepcopy(method).requires_grad_(False)
        self.source, self.network = copied.source.module, copied.model.module
        self._output, self._half_shift, self._window = copied.model, copied.half_shift, copied.window
        self._anchor = (copied.anchor,)  # a tuple: its state is that of the graph
        self._taps = tuple(tap for tap in taps_of(self.network).values() if tap.reference is not None)
        self.state = self._state_of(copied)
        pause(self.network, False)
        self._forget()

    def _state_of(self, method: Blend) -> State:
        following, anchor = method.anchor.following, method.anchor
        moments = [tap.reference for tap in self._taps]
        means = [m.mean if tap.site.mean is None else tap.site.mean for tap, m in zip(self._taps, moments)]
        variances = [m.var if tap.site.var is None else tap.site.var for tap, m in zip(self._taps, moments)]
        shares = following.class_shares if following.mix is None else following.mix
        number = torch.zeros(()) if anchor.recent is None else torch.tensor(float(min(len(anchor.recent), self._window)))
        return State(
            torch.tensor(float(self._window)) if following.samples is None else following.samples.clone(),
            torch.tensor(float(anchor.memory_samples)),
            torch.zeros(0) if shares is None else shares.clone(),
            torch.stack([torch.cat(means), torch.cat(variances)]),
            self._rows(anchor.recent, method.model.num_classes),
            self._rows(anchor.recent_source, method.model.num_classes),
            number,
        )

    def _rows(self, recent: Tensor | None, classes: int) -> Tensor:
        rows = torch.full((self._window, classes), 1 / classes)
        if recent is not None:
            last = recent[-self._window :]
            rows[len(rows) - len(last) :] = last
        return rows

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
        """Predict a batch and return the logits and the next state."""
        state = State(samples, memory, mix, moments, recent, recent_source, kept)
        logits, following = self.step(inputs, state, learn=True)
        return (logits, *following)

    def step(self, inputs: Tensor, state: State, *, learn: bool) -> tuple[Tensor, State]:
        """Return the logits of a batch, and the next state if it is learnt from."""
        (anchor,) = self._anchor
        batch, source = inputs.shape[0], self._read(self.source(inputs), inputs)
        shown = show_something(inputs)
        self._take(state)
        if learn:
            anchor.following.count(shown.float(), state.memory, source.softmax(1))
        own = self._read(self.network(inputs), inputs)
        plain, believed = anchor.scaled(own), anchor.scaled(source)
        rows, rows_source = (
            torch.cat([before, now.where((shown & torch.isfinite(now).all(1))[:, None], 1 / now.shape[1])])
            for before, now in ((state.recent, plain), (state.recent_source, believed))
        )
        # Of the last samples as many as the window holds, or the whole batch if that is more; earlier rows are empty.
        age = torch.arange(rows.shape[0] - 1, -1, -1, device=rows.device)
        held = (age < batch + state.kept) & ((age < self._window) | (age < batch))
        counted = held.to(rows.dtype)
        proportions = torch.full_like(rows, 1 / rows.shape[1])
        if anchor.proportions:
            proportions = agreed(
                *(proportions_by_evidence(part, window=self._window, counted=counted) for part in (rows, rows_source))
            )
        weighed = torch.cat([rows[:-batch], plain]) * proportions
        weighed = weighed / weighed.sum(1, keepdim=True).clamp_min(torch.finfo(weighed.dtype).tiny)
        number = counted.sum()
        entropy = entropy_of((weighed * counted[:, None]).sum(0) / number)
        shift = shift_of(list(self._taps))
        weight = (shift / (shift + self._half_shift)).to(plain)
        blended = believed.lerp(plain, weight) * proportions[-batch:]
        blended = blended / blended.sum(1, keepdim=True).clamp_min(torch.finfo(blended.dtype).tiny)
        finite = torch.isfinite(plain).all()
        scarcity = number.clamp_max(rows.shape[1]) / entropy.exp()
        following = State(
            anchor.following.samples,
            (self._window * scarcity.square().clamp(1.0, float(LONGEST_MEMORY))).round(),
            state.mix if anchor.following.mix is None else anchor.following.mix,
            torch.stack([torch.cat([tap.site.mean for tap in self._taps]), torch.cat([tap.site.var for tap in self._taps])]),
            rows[-self._window :],
            rows_source[-self._window :],
            (state.kept + batch).clamp_max(self._window),
        )
        following = State(*(torch.where(finite, new, old) for new, old in zip(following, state, strict=True)))
        self._forget()
        return torch.where(finite, log_of(blended).to(source.dtype), source), following

    def _read(self, returned: object, inputs: Tensor) -> Tensor:
        return self._output.read(returned, inputs.shape[0])

    def _take(self, state: State) -> None:
        self._anchor[0].following.return_to(state.samples, state.mix)
        sizes = [tap.num_features for tap in self._taps]
        for tap, mean, var in zip(self._taps, *(part.split(sizes) for part in state.moments), strict=True):
            tap.site.return_to(mean, var)

    def _forget(self) -> None:
        self._anchor[0].following.return_to(None, None)
        for tap in self._taps:
            tap.site.return_to(None, None)
