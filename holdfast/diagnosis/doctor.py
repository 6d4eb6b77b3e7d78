"""doctor: check a network and a few batches of clean data, and say what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.anchor import Card, read_card
from holdfast.blocks.wrapping import NormAccount, account
from holdfast.data import DATASETS, Dataset, as_dataset
from holdfast.diagnosis.costs import StepCost, step_costs
from holdfast.diagnosis.data import data_findings, labelled_batches
from holdfast.diagnosis.findings import Finding
from holdfast.diagnosis.network import network_findings
from holdfast.diagnosis.references import card_finding, stored_statistics
from holdfast.display import WordTable, fragment
from holdfast.model.adapted import SourceBatch
from holdfast.models.base import load
from holdfast.models.classifier import Classifier, classifier_of
from holdfast.models.inputs import inputs_and_labels
from holdfast.models.normalised import unwrapped
from holdfast.models.outputs import Output
from holdfast.options.spec import Spec
from holdfast.report.figures import Figure, axis, layout

DEFAULT_METHODS = (
    *("source", "batch_norm", "blend", "anchor", "guard", "robust_bn", "neo", "lame"),
    *("unitta_auto", "tent", "rdumb", "sar", "rotta"),
)


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """All findings, what happens to each normalisation layer, and what a step of each method costs.

    A notebook shows it as tables.
    """

    findings: tuple[Finding, ...]  # one for each check, with its status and remedy
    layers: tuple[NormAccount, ...] = ()  # what happens to each normalisation layer
    costs: tuple[StepCost, ...] = ()  # of a step of each method

    @property
    def failed(self) -> tuple[Finding, ...]:
        """The findings that must be mended before adapting."""
        return tuple(finding for finding in self.findings if finding.status == "fail")

    @property
    def conclusion(self) -> str:
        """How many checks ended in which way."""
        counts = Counter(finding.status for finding in self.findings)
        return f"{counts['ok']} ok, {counts['warn']} warn, {counts['fail']} fail"

    def tables(self) -> list[WordTable]:
        """Return the findings as a table, and the costs, if they were measured, as another."""
        rows = [[finding.check, finding.status, finding.observed, finding.remedy] for finding in self.findings]
        findings = WordTable("", ["check", "status", "observed", "remedy"], rows)
        titles = ["method", "ms per step", "× source", "peak MiB", "does not suit because"]
        costs = WordTable("", titles, [_cost_line(cost) for cost in self.costs])
        return [findings, costs] if self.costs else [findings]

    def __repr__(self) -> str:
        first = f"; {self.failed[0].check}: {self.failed[0].observed}" if self.failed else ""
        return f"Diagnosis({self.conclusion}{first})"

    def _repr_html_(self) -> str:
        return fragment(self.conclusion, *self.tables())

    def figure(self) -> Figure:
        """Return the time of a step of each method, for `holdfast.plot`."""
        timed = [(cost.method, cost.times_source) for cost in self.costs if cost.times_source is not None]
        bars = {"type": "bar", "x": [name for name, _ in timed], "y": [times for _, times in timed]}
        return {"data": [bars], "layout": layout(360, axis("method"), axis("time of a step, × source"))}

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        return {"failed": len(self.failed), **asdict(self)}


def doctor(
    model: nn.Module | str,
    data: Iterable[SourceBatch] | Dataset | str | Mapping[str, Any] | Spec | None = None,
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

    Args:
        model: a network, or the name of one.
        data: batches of clean inputs, with labels or without, of which the first few are looked at; or a data set, by
            name or as it is.
        methods: methods of which a step is measured.
        expected_accuracy: published accuracy of the network, between 0 and 1.
        batch_size: that of deployment; by default that of the data.
        batches: number of batches to look at.
        card: what `make_card` measured, or its file; methods that follow inputs from source data are shown it, or else
            the data.
        example: a batch of inputs, or a mapping with one for a network that takes it by name; only needed if probing
            the network does not find its inputs.
        head: name of the last layer; only needed if probing does not find it.
        output: where the logits are if the network returns a tuple, a mapping or a single logit: an index, a key,
            "binary", or a function.

    >>> from holdfast.models.tiny import tiny_resnet
    >>> diagnosis = doctor(nn.Sequential(tiny_resnet(), nn.Softmax(1)), methods=[])
    >>> [(finding.check, finding.status) for finding in diagnosis.failed]
    [('output', 'fail')]
    """
    network = unwrapped(load(model) if isinstance(model, str) else model)
    given_data = () if data is None else _batches_of(data, batch_size or 64, batches * (batch_size or 64))
    seen = [inputs_and_labels(batch) for batch in islice(given_data, batches)]
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


def _cost_line(cost: StepCost) -> list[str]:
    numbers = (cost.milliseconds, cost.times_source, cost.peak_mib)
    return [cost.method, *("" if value is None else f"{value:.4g}" for value in numbers), cost.refused or ""]


def _batches_of(data: Any, batch_size: int, samples: int) -> Iterable[SourceBatch]:
    """Return batches of a data set, by name or as it is; batches stay as they are."""
    if isinstance(data, (str, Mapping, Spec)):
        data = Spec.parse(data).build(DATASETS)
    is_dataset = all(hasattr(data, part) for part in ("inputs", "labels", "digest"))
    if is_dataset or isinstance(data, torch.utils.data.Dataset):
        return labelled_batches(as_dataset(data), batch_size, samples)
    batches: Iterable[SourceBatch] = data
    return batches


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
