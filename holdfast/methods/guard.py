"""Guard: the source, the anchor and an adapted network predict together; harmful updates are vetoed and undone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from holdfast.anchor import Anchor, AnchorTemperature, Opinion, Reference
from holdfast.evidence import LossAlarm
from holdfast.methods._base import METHODS, Method, PredictOnly, preset_for
from holdfast.methods._stepper import Stepper
from holdfast.methods.anchor import log_of
from holdfast.methods.blend import blended
from holdfast.models.classifier import Classifier
from holdfast.models.engines import EngineName, SourceEngine
from holdfast.models.sharing import sharing_copy, unshare
from holdfast.options.ranges import Count, Momentum, Positive, Share, Whole
from holdfast.records import Alarm, Event, Reset, Undone, Update, Verdict, Veto
from holdfast.registry import options_of
from holdfast.state import Savepoint, Stateful, contents

USUAL_TEMPERATURE = 1.75  # of estimates, until that of the network is known
COMPARE_EVERY = 8  # batches, once the temperature has been estimated
VETOED = "the source is believed more than the adapted network, which was left out"
UNDONE = "the update made the network worse and was undone"
ALARMED = "the adapted network stayed worse than the source"


@dataclass(frozen=True)
class Judged:
    """One batch as the judge sees it, kept between the prediction and the update."""

    logits: Tensor  # of the adapted network, with their graph
    opinion: Opinion
    source: Tensor  # probability that the source's predictions are right, (batch,)
    adapted: Tensor  # the same for the adapted network
    losses: Tensor  # by how much it is worse than the source, sample by sample, on the CPU
    events: tuple[Event, ...] = ()


@METHODS.register("guard")
class Guard(Method):
    """Predict with source, anchor and a network adapted by `base`, and undo updates that do harm. Ours.

    `prediction` says what is served: `mix` blends source and anchor as `blend` does and gives the adapted network a
    `share`; `choose` serves the adapted network alone; `choose_each` decides for each sample between source and adapted
    network; `adapted` serves it whatever happens. With `veto`, a batch is served without the adapted network
    if the anchor gives the source's predictions more probability. Every `gate_every` batches (0: never) the adapted
    network is compared with the previous snapshot, the first of which is the initial state; when it is worse by more
    than `margin` it goes back. An alarm, ever false with a probability of at most `level`, also sends it back when it
    stays worse than the source by more than `margin`. It goes back to the newest of the last `ring` snapshots to which
    the anchor gives as much probability as to the source on the batch, else to the start. `base` is a method or recipe,
    with `base_options`, and the recovery of a recipe acts on the adapted network; "auto" adapts nothing and serves the
    blend. Without source samples or a card the source is served, as by `blend`, unless `stored_reference` says that the
    stored BatchNorm statistics are the network's own.
    """

    citation = "ours; see docs/promise.md"
    uses_reference = True
    passes = "2 forwards, those of the method, and 1 every 4 batches"
    keeps = "recent moments, probabilities of the last samples, 3 snapshots of what the method has changed"
    predicts_jointly = True
    keeps_recovery = True
    needs_norm = False  # what it guards may
    use_when = "a method that trains is wanted in a service: its gains are kept, and its failures are not served"
    fails_when = (
        "source and anchor are both wrong; or no source samples are given: nothing without labels can then tell that "
        "the method is right, and the source is served"
    )
    meanings: ClassVar = {
        "base": "name of the guarded method or recipe; auto: none, serve the blend",
        "base_options": "options of the guarded method",
        "prediction": "what is served: mix, choose, choose_each or adapted",
        "share": "weight of the adapted network in the mix",
        "veto": "whether a batch on which the anchor trusts the source more is served without the adapted network",
        "gate_every": "number of batches between comparisons with the last good state; 0: never",
        "ring": "number of snapshots of earlier states that are kept",
        "margin": "estimated loss of accuracy at which the adapted network returns to an earlier state",
        "level": "probability that an alarm is ever false",
        "half_shift": "divergence of the moments at which source and anchor count the same",
        "source_share": "weight of the source's moments in the anchor",
        "window": "number of recent samples that count for moments and class proportions",
        "temperature": "divides all logits before they become probabilities; None: 1 for predictions, and fitted or "
        "estimated for the estimates",
        "stored_reference": "whether the statistics that BatchNorm layers store are those of the network's own source "
        "data",
        "clean_accuracy": "known accuracy of the source on data like those it was trained on, between 0 and 1",
    }
    vetoes: int
    undone: int
    alarms: int
    good: list[dict[str, Any]]

    def __init__(
        self,
        model: Classifier,
        *,
        base: str = "auto",
        base_options: Mapping[str, Any] | None = None,
        prediction: Literal["mix", "choose", "choose_each", "adapted"] = "mix",
        share: Share = 0.25,
        veto: bool = True,
        gate_every: Whole = 4,
        ring: Count = 3,
        margin: Momentum = 0.02,
        level: Share = 0.001,
        half_shift: Positive = 0.004,
        source_share: Share = 0.5,
        window: Count = 64,
        temperature: Positive | None = None,
        stored_reference: bool = False,
        clean_accuracy: Share | None = None,
        seed: int = 0,
    ) -> None:
        self.base, self.base_options = base, dict(base_options or {})
        self.prediction, self.share, self.veto = prediction, share, veto
        self.gate_every, self.ring, self.margin, self.level = gate_every, ring, margin, level
        self.half_shift, self.source_share, self.window = half_shift, source_share, window
        self.temperature, self.clean_accuracy = temperature, clean_accuracy
        self.stored_reference = stored_reference
        super().__init__(model, seed=seed)
        self.anchor_temperature = AnchorTemperature(given=temperature is not None, clean_accuracy=clean_accuracy)
        # The anchor predicts, as in `blend`; the judge is the same at the network's temperature.
        self.judge = Anchor(temperature=USUAL_TEMPERATURE if temperature is None else temperature, window=window)
        self.alarm = LossAlarm(level=level, tolerated=margin)
        self.add_state("vetoes", 0)
        self.add_state("undone", 0)
        self.add_state("alarms", 0)
        self.add_state("good", [])  # snapshots of the adapted network that were not worse than the one before
        self._judged: Judged | None = None

    @classmethod
    def requires_source(cls, options: Mapping[str, Any], /) -> bool:
        """Return whether the guarded method does."""
        name = options.get("base", "auto")
        return name in METHODS and METHODS[name].needs_source

    # The networks -----------------------------------------------------------------------------------------

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Keep the source and an anchor beside the network, which the guarded method changes."""
        self.source, self.following, self.engine = sharing_copy(model), sharing_copy(model), SourceEngine()
        self.anchor = Anchor(temperature=self.temperature or 1.0, window=self.window)
        self.anchor.tap(self.following, source_share=self.source_share)
        self.inner: Method | None = None
        if self.base == "auto":
            return []
        kind = METHODS[self.base]
        preset = preset_for(kind, model)
        published = {} if preset is None else kind.presets[preset]
        known = {name: value for name, value in published.items() if name in options_of(kind)}
        self.inner = kind(model, **{**known, "seed": self.seed, **self.base_options})
        self.predicts = self.inner.predicts
        for copied in (self.source, self.following):
            unshare(copied, self.inner.moving().values())
        return self.inner.trained

    def run_source_by(self, engine: EngineName) -> None:
        """Run the frozen source by a faster engine from now on."""
        self.engine = SourceEngine(engine)

    def refer_to(self, reference: Reference) -> None:
        """Let the anchor follow inputs from the moments of the source's own data."""
        self.anchor.refer_to(self.following, reference)

    @property
    def referred(self) -> bool:
        """Whether the moments of the source's own data are known."""
        return self.anchor.is_referred or (self.stored_reference and self.follows)

    def predict(self, inputs: Tensor) -> Tensor:
        """Return the logarithms of the served probabilities."""
        return self.serve(inputs)[0]

    def serve(self, inputs: Tensor) -> tuple[Tensor, Verdict | None]:
        """Return the logarithms of the served probabilities, and what the judge thinks of them if it can say."""
        logits = None
        if self.inner is not None:
            self.inner.pause(self.paused)
            logits = self.inner.predict(inputs)
        with torch.no_grad():
            source_logits = self.engine(self.source, inputs)
            opinion = self.anchor.judge(self.following, inputs, source=source_logits, learn=not self.paused)
            judge = None if opinion is None else self._opinion_of_judge(opinion, inputs, source_logits)
            served, judged = self._serve(source_logits, opinion, judge, logits)
        self._judged = None if self.paused else judged
        verdict = None if judge is None else self._verdict(served, source_logits, judge)
        return log_of(served).to(self.model.dtype), verdict

    def _opinion_of_judge(self, opinion: Opinion, inputs: Tensor, source_logits: Tensor) -> Opinion:
        """Return the same opinion at the network's temperature, which may be estimated before."""
        logits = log_of(opinion.plain) * self.anchor.now_temperature
        due = self.anchor_temperature.waits or self.batches % COMPARE_EVERY == 0
        if due and self.compares and not self.paused:
            self.anchor_temperature.compare(self.judge, logits, source_logits)
        judge = self.judge.view(logits, source_logits, inputs, learn=not self.paused)
        return replace(judge, shift=opinion.shift)

    def _verdict(self, served: Tensor, source_logits: Tensor, judge: Opinion) -> Verdict:
        chosen, before = served.argmax(1), source_logits.argmax(1)
        logits = log_of(judge.plain) * self.judge.now_temperature
        return Verdict(chosen, before, judge.belief(chosen), judge.belief(before), judge.recent, logits, judge.shift)

    @property
    def follows(self) -> bool:
        """Whether the anchor follows its inputs."""
        return self.anchor.follows

    @property
    def compares(self) -> bool:
        """Whether source and anchor agreeing tells a temperature: not if the anchor knows the source's moments."""
        return self.follows and not self.anchor.is_referred

    def fit_temperature(self, batches: Sequence[tuple[Tensor, Tensor | None]]) -> None:
        """Fit the temperature of the judge to held-out source data, and learn nothing else from them."""
        if self.anchor_temperature.given:
            return
        source = [self.engine(self.source, inputs) for inputs, _ in batches]
        logits = [
            self.anchor.follow(self.following, inputs, given)
            for (inputs, _), given in zip(batches, source, strict=True)
        ]
        agreeing = source if self.compares or self.clean_accuracy is not None else []
        self.anchor_temperature.fit(self.judge, logits, [labels for _, labels in batches], agreeing)
        for part in (self.following, self.anchor, self.judge, self.anchor_temperature):
            for stateful in part.modules():
                if isinstance(stateful, Stateful):
                    stateful.reset_state()

    def _serve(
        self, source_logits: Tensor, opinion: Opinion | None, judge: Opinion | None, logits: Tensor | None
    ) -> tuple[Tensor, Judged | None]:
        """Return the served probabilities, and what the judge thinks of the adapted network."""
        source = self.anchor.scaled(source_logits)
        usual = source if opinion is None or not self.referred else blended(source, opinion, self.half_shift)
        if logits is None:
            return usual, None
        own = self.anchor.scaled(logits.detach())
        if opinion is None or judge is None:  # nobody can judge it
            return (own if self.prediction == "adapted" else usual), None
        judge = judge.or_source(self.judge.scaled(source_logits))
        believed_source, believed_own = (judge.belief(given.argmax(1)) for given in (source, own))
        finite = torch.isfinite(own).all()[None].to(believed_own)
        losses = (believed_source - believed_own).clamp(-1, 1)  # rounding may exceed 1
        values = torch.cat([losses, finite]).cpu()  # the host waits once
        if not values[-1]:  # there is nothing to judge
            return (own if self.prediction == "adapted" else usual), None
        judged = Judged(logits, judge, believed_source, believed_own, values[:-1])
        if self.prediction == "adapted":
            return own, judged
        if not self.referred:  # the judge may be wrong about this network
            return usual, judged
        if self.veto and (loss := float(judged.losses.mean())) > 0:
            self.vetoes += not self.paused
            return usual, replace(judged, events=(Veto(VETOED, {"loss": loss}),))
        if self.prediction == "mix":
            return usual.lerp(opinion.reweigh(own), self.share), judged
        if self.prediction == "choose":
            return own, judged
        return torch.where((believed_own >= believed_source)[:, None], own, source), judged

    # What is learnt ---------------------------------------------------------------------------------------

    def adapt(self, inputs: Tensor, logits: Tensor | None = None) -> Update:
        """Let the guarded method adapt; undo what made it worse; reset it when it stays worse than the source."""
        self.batches += 1
        judged, self._judged = self._judged, None
        if self.inner is None or judged is None:
            return Update()
        due = self.gate_every > 0 and self.batches % self.gate_every == 0
        before = self.inner.snapshot() if due else None
        update = self.inner.adapt(inputs, judged.logits)
        self.samples_backwarded = self.inner.samples_backwarded
        events = judged.events + update.events
        if self.alarm.observe(judged.losses.tolist()):
            self.alarms += 1
            back = Reset(f"{ALARMED}; {self._go_back(inputs, judged)}", {"snapshots": len(self.good)})
            return Update(update.loss, (*events, Alarm(ALARMED, {"alarms": self.alarms}), back))
        if before is not None and (loss := self._loss_since(inputs, judged)) > self.margin:
            self.undone += 1
            self._go_back(inputs, judged)
            return Update(update.loss, (*events, Undone(UNDONE, {"loss": loss})))
        if before is not None:
            self.good = [*self.good, before][-self.ring :]
        return Update(update.loss, events)

    def _loss_since(self, inputs: Tensor, judged: Judged) -> float:
        """Return by how much the network predicts this batch worse than the newest snapshot, or the start, does."""
        assert self.inner is not None
        # Without the networks' own attributes: what passes through them is counted.
        now = Savepoint(contents([part for part in self.inner.modules() if not isinstance(part, Classifier)]))
        self._return_to(self.good[-1] if self.good else None)
        loss = -float((judged.adapted - self._belief(inputs, judged)).mean())
        now.restore()
        now.release()
        return loss

    def _go_back(self, inputs: Tensor, judged: Judged) -> str:
        """Return to the newest snapshot that is believed as much as the source on this batch, or to the start."""
        while self.good:
            self._return_to(self.good[-1])
            if float((self._belief(inputs, judged) - judged.source).mean()) >= 0:
                return f"went back to one of {len(self.good)} snapshots"
            self.good = self.good[:-1]
        self._return_to(None)
        return "went back to the start"

    def _return_to(self, snapshot: Mapping[str, Any] | None) -> None:
        assert self.inner is not None
        if snapshot is None:
            self.inner.reset()
        else:
            self.inner.return_to(snapshot)

    @torch.no_grad()
    def _belief(self, inputs: Tensor, judged: Judged) -> Tensor:
        """Return the probabilities that what the guarded method predicts now is right; nothing is learnt."""
        assert self.inner is not None
        self.inner.pause()
        belief = judged.opinion.belief(self.inner.predict(inputs).argmax(1))
        self.inner.pause(False)
        return belief

    def reset_weights(self) -> None:
        """Return the weights of the guarded method to the source too."""
        if self.inner is not None:
            self.inner.reset_weights()
        super().reset_weights()

    # What the guarded method answers for ------------------------------------------------------------------

    def fit_source(self, batches: Iterable[Tensor]) -> None:
        """Show source inputs to the guarded method."""
        if self.inner is not None:
            self.inner.fit_source(batches)

    def gauges(self) -> Mapping[str, float]:
        """Return the numbers of vetoes, of undone updates and of alarms, and the guarded method's own."""
        inner = {} if self.inner is None else self.inner.gauges()
        return {**inner, "vetoes": self.vetoes, "undone": self.undone, "alarms": self.alarms}

    @property
    def recovering(self) -> Method:
        """The guarded method, which a recovery restores; snapshots, alarm and anchor stay."""
        return self if self.inner is None else self.inner

    def network_logits(self, logits: Tensor) -> Tensor:
        """Return the logits of the guarded method's network."""
        if self.inner is None or self._judged is None:
            return logits
        return self.inner.network_logits(self._judged.logits.detach())

    @property
    def predictor(self) -> Classifier:
        """The network that the guarded method predicts with."""
        return self.following if self.inner is None else self.inner.predictor

    def predictor_head(self) -> AbstractContextManager[None]:
        """Give the predicting network the head of the guarded method."""
        return super().predictor_head() if self.inner is None else self.inner.predictor_head()

    @property
    def lr_scale(self) -> float:
        """A factor on all learning rates of the guarded method."""
        return 1.0 if self.inner is None else self.inner.lr_scale

    def scale_rates(self, scale: float) -> None:
        """Multiply all learning rates by a factor from now on."""
        if self.inner is not None:
            self.inner.scale_rates(scale)

    def export(self) -> nn.Module:
        """Return a module that predicts as the guard does now and no longer adapts."""
        return PredictOnly(self)

    def _make_stepper(self) -> Stepper | None:
        """Return none: the guarded method has its own."""
        return None
