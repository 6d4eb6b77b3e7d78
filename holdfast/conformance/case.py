"""Run a recipe with the options of a recorded trace, and say how far its predictions are from the trace."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.blocks.wrapping import affine_parameters
from holdfast.conformance.pack import CIFAR, Arrays, Pack, load_arrays
from holdfast.machine.devices import Placement
from holdfast.methods import Method
from holdfast.model.adapt import adapt
from holdfast.model.adapted import AdaptedModel
from holdfast.records import Update

ROUNDING_NOISE = 2e-7  # standard deviation of noise on inputs in [0, 1]: about one last bit
NOISE_DRAWS = 3

Kind = TypeVar("Kind")


def expect(kind: type[Kind], part: object) -> Kind:
    """Return a part of a model, which has to be of this kind."""
    assert isinstance(part, kind), f"{type(part).__name__} is no {kind.__name__}"
    return part


@dataclass(frozen=True)
class Case:
    """The settings of a recorded trace as a recipe; options are those of `holdfast.adapt`."""

    trace: str
    recipe: str
    options: Mapping[str, Any] = field(default_factory=dict)
    pack: Pack = CIFAR  # the stream and the network
    fresh_options: Callable[[], Mapping[str, Any]] = dict  # options with a state of their own, made for each run
    arrange: Callable[[Method], None] | None = None  # called before the first batch, for what no option sets
    recorded: Callable[[Method, Mapping[str, Any], str], None] | None = None  # the same, with arrays of the trace
    source: bool = False  # the method sees the source inputs of the pack before the first batch
    array: str = "logits"  # the trace's array of predictions, without the stream's prefix
    probabilities: bool = False  # the trace holds probabilities, and the recipe returns their logarithms
    batch_size: int = 64
    first_tolerance: float = 1e-4  # on the first five batches
    tolerance: float = 1e-4  # on the whole stream, where the trace suggests none
    memory: bool = False  # `method.memory.inputs()` must equal the trace's after each batch
    domains: bool = False  # `method.domains` must equal the trace's for each sample, and their number
    close_calls: int = 0  # samples whose two candidate predictions have equal confidence but for rounding
    states: Mapping[str, Callable[[Method], Tensor]] = field(
        default_factory=dict
    )  # array of the trace: final state of the method
    decisions: Mapping[str, Callable[[AdaptedModel], float]] = field(
        default_factory=dict
    )  # array of the trace with one number for each batch: the same after that batch
    totals: Mapping[str, Callable[[AdaptedModel], float]] = field(
        default_factory=dict
    )  # array of the trace with one count for each batch: the sum of the counts after that batch
    inputs_of: tuple[str, ...] = ()  # arrays of the trace that `recorded` reads
    twin: bool = False  # takes the code path of another case


@dataclass(frozen=True)
class TraceComparison:
    """The largest difference of a logit or probability between a recipe and its trace, and whether it is allowed."""

    case: Case
    stream: str
    reference: str
    difference: float
    tolerance: float
    passed: bool
    note: str = ""

    def in_words(self) -> tuple[str, ...]:
        """Return the cells of a table row: method, trace, stream, reference, difference, tolerance, result."""
        numbers = (f"{self.difference:.1e}", f"{self.tolerance:.1e}")
        result = "equal" if self.passed else "DIFFERS"
        return (self.case.recipe, self.case.trace, self.stream, self.reference, *numbers, result)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        return {
            "method": self.case.recipe,
            "trace": self.case.trace,
            "stream": self.stream,
            "reference": self.reference,
            "difference": self.difference,
            "tolerance": self.tolerance,
            "passed": self.passed,
            "note": self.note,
        }


def compare(
    case: Case, stream: str, golden: Path, *, samples: int | None = None, device: str = "cpu"
) -> TraceComparison:
    """Run a case on one stream of the golden folder and compare everything that its trace recorded.

    `samples` limits this to the first ones: double precision takes ten times as long as single precision.
    """
    Placement(device).check()
    pack, traces = case.pack, golden / case.pack.traces
    facts = json.loads((traces / f"{case.trace}.json").read_text())
    reference = facts.get("implementation") or facts.get("source") or "UniTTA repository"
    double = traces / f"{case.trace}_f64.npz"
    expected = recorded_arrays(traces, case.trace)
    inputs = pack.inputs(golden, torch.float64 if double.exists() else torch.float32)
    wanted = expected[f"{stream}_{case.array}"][:samples]
    stream_inputs = inputs[stream][: len(wanted)]
    whole = len(wanted) == pack.length(golden, stream)
    run = partial(_run, case, golden, expected=expected, stream=stream, device=device)
    model, predictions, held, decided = run(stream_inputs, last_update=whole)
    gaps = np.abs(predictions - wanted)
    gaps[gaps.max(1).argsort()[len(gaps) - case.close_calls :]] = 0.0  # rounding decides these
    tolerance = float(facts.get("suggested_atol", case.tolerance))
    first = min(len(gaps), 5 * case.batch_size)
    note = ""
    passed = bool(gaps.max() <= tolerance and gaps[:first].max() <= case.first_tolerance)
    if not passed:
        # Adam and hard filters amplify last-bit differences between two CPUs, and input noise of that size just as
        # much. The bound is five times the effect of such noise, the rule behind the traces' own tolerances; up to
        # three draws, because a single one may flip no unit.
        wobble = np.zeros_like(gaps)
        for seed in range(NOISE_DRAWS):
            noise = ROUNDING_NOISE * torch.randn(stream_inputs.shape, generator=torch.Generator().manual_seed(seed))
            noisy = run(stream_inputs + noise.to(stream_inputs), last_update=False)[1]
            wobble = np.maximum(wobble, 5 * np.abs(noisy - predictions))
            passed = bool(
                gaps.max() <= max(tolerance, wobble.max())
                and gaps[:first].max() <= max(case.first_tolerance, wobble[:first].max())
            )
            if passed:
                break
        note = f"rounding on this machine changes a prediction by up to {wobble.max() / 5:.1g}"
    problem = None
    if case.memory and (wrong := _wrong_memories(held, _memory(expected, stream), stream_inputs)):
        problem = f"the memory differs after batches {wrong[:5]}"
    elif wrong_by_name := _wrong_decisions(case, decided, stream, expected):
        name, wrong = next(iter(wrong_by_name.items()))
        problem = f"{name} differs after batches {wrong[:5]}"
    elif case.domains and (wrong := _wrong_domains(held, stream, expected)):
        problem = f"the domains differ in batches {wrong[:5]}"
    elif whole:
        problem = _state_problem(case, stream, model, expected, tolerance)
    return TraceComparison(
        case, stream, reference, float(gaps.max()), tolerance, passed and problem is None, problem or note
    )


def _run(
    case: Case, golden: Path, inputs: Tensor, expected: Arrays, stream: str, *, last_update: bool, device: str
) -> tuple[AdaptedModel, NDArray[Any], list[Tensor], dict[str, list[float]]]:
    """Return the final model, its predictions, and after each batch its memory or domains, and its decisions.

    Without `last_update`, the last batch is only predicted, unless anything is compared after it.
    """
    network = case.pack.network(golden).to(device, inputs.dtype)
    shown = case.pack.inputs(golden, inputs.dtype)["source"].to(device).split(case.batch_size)
    source = shown if case.source else None
    model = adapt(network, case.recipe, source=source, **case.options, **case.fresh_options())
    if case.arrange is not None:
        case.arrange(model.method)
    if case.recorded is not None:
        case.recorded(model.method, expected, stream)
    predictions, held = [], []
    asked = {**case.decisions, **case.totals}
    decided: dict[str, list[float]] = {name: [] for name in asked}
    *earlier, last = inputs.to(device).split(case.batch_size)
    for batch in (*earlier, last):
        if batch is last and not (last_update or case.memory or case.domains or asked):
            model.method.adapt = _no_update  # type: ignore[method-assign, assignment]
        predictions.append(model(batch).cpu())
        for name, decision in asked.items():
            decided[name].append(decision(model))
        if case.memory:
            held.append(model.method.memory.inputs().cpu())  # type: ignore[union-attr, operator]
        if case.domains:  # one domain per sample, then the number of domains
            domains = model.method.domains
            held.append(torch.tensor([*domains.assigned.tolist(), len(domains.counts)]))  # type: ignore[union-attr, operator, arg-type]
    joined = torch.cat(predictions)
    return model, (joined.exp() if case.probabilities else joined).numpy(), held, decided


def _no_update(_inputs: Tensor, _logits: Tensor | None = None) -> Update:
    return Update()


def _state_problem(case: Case, stream: str, model: AdaptedModel, expected: Arrays, tolerance: float) -> str | None:
    """Return which state differs from the trace at the end of the whole stream, or None."""
    states = dict(case.states)
    if f"{stream}_affine" in expected and "affine" not in states:
        states["affine"] = lambda method: torch.cat([part.flatten() for part in affine_parameters(method)])
    for name, state in states.items():
        key = f"{stream}_{name}" if f"{stream}_{name}" in expected else name
        if key not in expected:
            continue  # the shipped part of a trace has predictions only
        value, wanted = state(model.method).detach().cpu().numpy(), expected[key]
        if wanted.ndim > value.ndim:  # one row per batch
            wanted = wanted[-1]
        gap = np.abs(value - wanted)
        if gap.max() > tolerance / 10 and np.linalg.norm(gap) > 5e-3 * np.linalg.norm(wanted):
            return f"{name} differs by up to {gap.max():.2g}"
    return None


def _memory(expected: Arrays, stream: str) -> NDArray[Any]:
    """Return the rows of the inputs in the memory after each batch; two names are in use."""
    return expected[f"mem_{stream}"] if f"mem_{stream}" in expected else expected[f"{stream}_mem"]


def _wrong_decisions(
    case: Case, decided: Mapping[str, list[float]], stream: str, expected: Arrays
) -> dict[str, list[int]]:
    """Return the batches after which a decision differs: a count at all, another number by more than 1 %."""
    wrong = {}
    for name, values in decided.items():
        wanted = expected[f"{stream}_{name}"][: len(values)]
        wanted = wanted.cumsum() if name in case.totals else wanted
        tolerance = 0.0 if np.issubdtype(wanted.dtype, np.integer) else 0.01
        same = np.isclose(np.array(values), wanted, rtol=tolerance, atol=tolerance / 100, equal_nan=True)
        if not same.all():
            wrong[name] = np.flatnonzero(~same).tolist()
    return wrong


def _wrong_memories(held: list[Tensor], rows: NDArray[Any], inputs: Tensor) -> list[int]:
    """Return the batches after which the memory held other inputs or another order; -1 marks an empty place."""
    return [
        batch
        for batch, (memory, wanted) in enumerate(zip(held, rows, strict=False))
        if not torch.equal(memory, inputs[torch.from_numpy(wanted[wanted >= 0])])
    ]


def _wrong_domains(held: list[Tensor], stream: str, expected: Arrays) -> list[int]:
    """Return the batches whose samples got other domains, or after which the number of domains was another."""
    starts = np.cumsum([0] + [len(domains) - 1 for domains in held])
    return [
        batch
        for batch, domains in enumerate(held)
        if domains[-1] != expected[f"{stream}_num_domains"][batch]
        or (domains[:-1].numpy() != expected[f"{stream}_domain_pred"][starts[batch] : starts[batch + 1]]).any()
    ]


def recorded_arrays(traces: Path, trace: str) -> Arrays:
    """Return the arrays of a trace; those of its double-precision run replace those of the same name."""
    files = (traces / f"{trace}.npz", traces / f"{trace}_f64.npz")
    return {name: array for path in files if path.exists() for name, array in load_arrays(path).items()}
