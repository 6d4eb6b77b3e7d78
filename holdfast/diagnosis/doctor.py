"""doctor: check a network and a few batches of clean data, and say what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.anchor import Card, read_card
from holdfast.blocks.wrapping import NormAccount, account
from holdfast.diagnosis.costs import StepCost, step_costs
from holdfast.diagnosis.data import data_findings
from holdfast.diagnosis.findings import Finding
from holdfast.diagnosis.network import network_findings
from holdfast.diagnosis.references import card_finding, stored_statistics
from holdfast.model.adapted import SourceBatch
from holdfast.models.base import load
from holdfast.models.classifier import Classifier, classifier_of
from holdfast.models.inputs import inputs_and_labels
from holdfast.models.normalised import unwrapped
from holdfast.models.outputs import Output

__all__ = ["DEFAULT_METHODS", "Diagnosis", "doctor"]

DEFAULT_METHODS = (
    *("source", "batch_norm", "blend", "anchor", "guard", "robust_bn", "neo", "lame"),
    *("unitta_auto", "tent", "rdumb", "sar", "rotta"),
)


@dataclass(frozen=True)
class Diagnosis:
    """All findings, what happens to each normalisation layer, and what a step of each method costs."""

    findings: tuple[Finding, ...]
    layers: tuple[NormAccount, ...] = ()
    costs: tuple[StepCost, ...] = ()

    @property
    def failed(self) -> tuple[Finding, ...]:
        """The findings that must be mended before adapting."""
        return tuple(finding for finding in self.findings if finding.status == "fail")

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        return {"failed": len(self.failed), **asdict(self)}


def doctor(
    model: nn.Module | str,
    data: Iterable[SourceBatch] | None = None,
    *,
    methods: Sequence[str] = DEFAULT_METHODS,
    expected_accuracy: float | None = None,
    batch_size: int | None = None,
    batches: int = 4,
    card: Card | str | Path | None = None,
    example: Tensor | Mapping[str, Tensor] | None = None,
    head: str | None = None,
    output: Output = None,
) -> Diagnosis:
    """Check a network and its clean data before adapting, and measure a step of each method on this machine.

    `data` are batches of clean inputs, with labels or without, of which the first few are looked at. `batch_size` is
    the one in deployment, by default that of the data. `expected_accuracy` is the published one, between 0 and 1.
    `card` is what `make_card` measured, or its file; methods that follow inputs from source data are shown it, or else
    the data.

    >>> from holdfast.models.tiny import tiny_resnet
    >>> diagnosis = doctor(nn.Sequential(tiny_resnet(), nn.Softmax(1)), methods=[])
    >>> [(finding.check, finding.status) for finding in diagnosis.failed]
    [('output', 'fail')]
    """
    network = unwrapped(load(model) if isinstance(model, str) else model)
    seen = [inputs_and_labels(batch) for batch in islice(data or (), batches)]
    given = seen[0][0] if seen else None
    try:
        if example is None and given is not None:
            classifier = classifier_of(network, given, head, output)
        else:
            classifier = Classifier(network, example=example, head=head, output=output)
    except (ValueError, TypeError) as error:
        remedy = "pass example= with a batch that the network takes, or output= with the place of its logits"
        return Diagnosis((Finding("network", "fail", str(error), remedy),))
    layers = tuple(account(network))
    findings = list(network_findings(classifier, layers))
    size = batch_size or (len(seen[0][0]) if seen else 64)
    if seen:
        labels = None if any(each is None for _, each in seen) else torch.cat([each for _, each in seen])  # type: ignore[misc]
        inputs = torch.cat([each for each, _ in seen])
        findings += data_findings(classifier, inputs, labels, batch_size=size, expected_accuracy=expected_accuracy)
    shown = [each.to(classifier.device, classifier.input_dtype) for each, _ in seen]
    if shown and not any(finding.status == "fail" and finding.check.startswith("input") for finding in findings):
        fits = stored_statistics(classifier, torch.cat(shown))
        findings += [] if fits is None else [fits]
    if card is not None:
        card = card if isinstance(card, Card) else read_card(card)
        findings.append(card_finding(network, card))
    usable = card if card is not None and findings[-1].status == "ok" else None
    batch = classifier.trial_inputs(min(size, 64)) if given is None else given
    batch = batch.to(classifier.device, classifier.input_dtype)
    known_head = None if head is None else classifier.head_name  # which has a prefix if inputs are passed by name
    measured = step_costs(classifier.module, methods, batch, known_head, output, source=shown, card=usable)
    costs = tuple(measured) if methods else ()
    return Diagnosis((*findings, *_suitable(costs)), layers, costs)


def _suitable(costs: Sequence[StepCost]) -> list[Finding]:
    if not costs:
        return []
    suits = [cost.method for cost in costs if cost.refused is None and cost.follows]
    refused = [cost.method for cost in costs if cost.refused is not None]
    idle = [cost.method for cost in costs if not cost.follows]
    text = f"{', '.join(suits)} suit this network" + (f"; {', '.join(refused)} do not" if refused else "")
    if idle:
        text += f"; {', '.join(idle)}: no effect without source samples; pass source= or card="
    if len(suits) > 1 or not refused:
        return [Finding("methods", "ok", text)]
    return [Finding("methods", "fail", text, next(cost.refused for cost in costs if cost.refused) or "")]
