"""Measure the cost of a step: each recipe's time per batch as a multiple of a bare forward pass, on one thread.

    python benchmarks/step_cost.py [--rounds 6] [--channels-last | --best-format] [--guards] [--json FILE]

Recipes alternate batch by batch, and only ratios are reported, because absolute times are not comparable on a shared
machine. Without `--weights` the CIFAR ResNet-20 is random, with equal cost except for methods that select samples.
`--channels-last` lays out network and inputs so; the bare forward pass of which costs are multiples stays contiguous.
`--best-format` measures both memory formats and reports the cheaper one of each recipe.
`waits` is how often the host waits for the device in a step, counted on a pretended device (holdfast.testing).
`--guards` measures the checks of the inputs and the transaction around a step, which are part of each recipe's time.
"""

from __future__ import annotations

import argparse
import copy
import gc
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from measured import run
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from holdfast.machine.devices import Placement
from holdfast.model.adapt import adapt
from holdfast.model.adapted import AdaptedModel
from holdfast.model.pending import Pending
from holdfast.models.cifar_resnet import CifarResNet
from holdfast.models.input_checks import check_inputs
from holdfast.recipes import resolve

sys.path.append(str(Path(__file__).resolve().parents[1]))
from tests.device.pretended_device import PretendedDevice

GOLDEN = Path(__file__).resolve().parents[2] / "shared" / "golden"
FORMATS: dict[bool, Literal["contiguous", "channels_last"]] = {False: "contiguous", True: "channels_last"}
ETA = {"optimizer": "sgd", "lr": 5e-3, "momentum": 0.9, "redundancy_margin": 0.4}

OFFICIAL_BATCH = 64  # the batch size of the official figures
# label -> (recipe, options, cost of the official code if known)
Entry = tuple[str, dict[str, Any], float | None]
RECIPES: dict[str, Entry] = {
    "source": ("source", {}, 1.02),
    "batch_norm": ("batch_norm", {}, 1.29),
    "batch_norm, prior 16": ("batch_norm", {"prior_samples": 16}, 1.37),
    "batch_norm, cumulative": ("batch_norm", {"cumulative": True}, 1.38),
    "anchor": ("anchor", {}, None),
    "blend": ("blend", {}, None),
    "tent": ("tent", {"optimizer": "adam", "lr": 1e-3}, 2.81),
    "guard(tent)": ("guard", {"base": "tent", "base_options": {"optimizer": "adam", "lr": 1e-3}}, None),
    "tent, SGD": ("tent", {"optimizer": "sgd", "lr": 2.5e-4}, 2.75),
    "eta": ("eta", ETA, 2.57),
    "eata": ("eata", {**ETA, "fisher_weight": 2000.0}, 2.77),
    "rdumb": ("rdumb", ETA, 2.49),
    "sar": ("sar", {}, 5.32),
    "rpl": ("rpl", {"preset": "ccc"}, 2.72),
    "slr": ("slr", {}, 2.56),
    "slr, clipped": ("slr", {"clip": 0.99}, 2.49),
    "cpl": ("cpl", {"preset": "ccc"}, 2.69),
    "cpl, predicts after": ("cpl", {"poly_epsilon": 6.0, "predicts": "after"}, 4.0),
    "lame, kNN": ("lame", {"affinity": "knn"}, 1.0),
    "lame, rbf": ("lame", {"affinity": "rbf"}, 1.0),
    "robust_bn": ("robust_bn", {}, 2.4),
    "balanced_bn": ("balanced_bn", {}, 4.1),
    "balanced_bn, all alike": ("balanced_bn", {"agnostic_share": 1.0}, 3.3),
    "unmix_tns": ("unmix_tns", {}, 2.9),
    "bdn": ("bdn", {}, 5.7),
    "cofa": ("cofa", {}, 1.0),
    "unitta": ("unitta", {}, 5.9),
    "unitta_auto": ("unitta_auto", {}, None),
    "tribe, no view": ("tribe", {"view": "identity"}, 13.0),
    "t3a": ("t3a", {}, None),
    "neo": ("neo", {}, None),
    "foa_shift": ("foa_shift", {}, None),
    "pea": ("pea", {}, None),
    "cotta, 32 views": ("cotta", {"confidence_threshold": 2.0}, 66.5),
    "cotta, no views": ("cotta", {"preset": "imagenet-c"}, 6.7),
    "cotta, affine only": ("cotta", {"preset": "ccc"}, 5.4),
    "roid": ("roid", {}, 4.8),
    "rotta": ("rotta", {}, 10.0),
    "sotta": ("sotta", {}, 8.9),
    "note": ("note", {}, 19.5),
    "note, UniTTA": ("note", {"preset": "unitta"}, 10.1),
    "zerosiam": ("zerosiam", {}, 2.3),
    "come_tent": ("come_tent", {}, 2.4),
    "come_eata": ("come_eata", ETA, 2.5),
    "come_sar": ("come_sar", {}, 4.8),
    "deyo": ("deyo", {}, 3.8),
    "delta": ("delta", {}, 3.8),
    "cmf": ("cmf", {}, 4.0),
    "petta": ("petta", {}, 14.6),
    "poem": ("poem", {}, 3.8),
    "reservoir": ("reservoir", {"max_models": 2}, 4.8),  # the official figure is without new clusters
    "asr_eta": ("asr_eta", ETA, 4.6),
    "asr_roid": ("asr_roid", {}, 7.2),
}


def main() -> None:
    """Measure in several processes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--weights", type=Path, default=GOLDEN / "resnet20_cifar10.safetensors")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--recipe", action="append", help="measure only this recipe; may be repeated")
    parser.add_argument("--channels-last", action="store_true", help="adapt a network in this memory format")
    parser.add_argument("--best-format", action="store_true", help="measure both memory formats, report the cheaper")
    parser.add_argument("--guards", action="store_true", help="measure the guards alone")
    run(parser, figures)


def figures(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Return the costs of each recipe; held and peak are memory as multiples of the model's size."""
    torch.set_num_threads(1)
    network = CifarResNet.from_file(options.weights) if options.weights.exists() else CifarResNet().eval()
    rounds = 4 if options.quick else options.rounds
    batches = list(inputs(rounds * options.batch_size).split(options.batch_size))
    chosen = {label: entry for label, entry in RECIPES.items() if not options.recipe or entry[0] in options.recipe}
    if options.guards:
        shares = measure_guards(network, batches, chosen)
        return {label: {"of_forward": bare, "of_step": own} for label, (bare, own) in shares.items()}
    formats = (False, True) if options.best_format else (options.channels_last,)
    measured = {last: measure(network, batches, chosen, channels_last=last) for last in formats}
    costs: dict[str, dict[str, Any]] = {}
    for label, (recipe, keywords, official) in chosen.items():
        official = official if options.batch_size == OFFICIAL_BATCH else None
        best = min(formats, key=lambda last: measured[last][label])
        cost = measured[best][label]
        costs[label] = {"forwards": cost, "official": official, "of_official": official and cost / official}
        costs[label]["memory_format"] = FORMATS[best]
        if options.process == 0:  # these do not differ between processes
            held, peak = measure_memory(network, batches[:4], recipe, keywords)
            waits = count_waits(network, [batch[:8] for batch in batches[:3]], recipe, keywords)
            costs[label] |= {"held": held, "peak": peak, "waits": waits}
    ratios = [cost["of_official"] for cost in costs.values() if cost["of_official"]]
    return {**costs, **({"all": {"of_official": statistics.geometric_mean(ratios)}} if ratios else {})}


def inputs(samples: int) -> Tensor:
    """Return the golden stream if it is present, else uniform noise."""
    path = GOLDEN / "stream.npz"
    if not path.exists():
        return torch.rand(samples, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with np.load(path) as file:
        images = torch.from_numpy(file["iid_x"]).permute(0, 3, 1, 2).contiguous().float() / 255
    return images.repeat(-(-samples // len(images)), 1, 1, 1)[:samples]


def measure(
    network: CifarResNet, batches: list[Tensor], recipes: Mapping[str, Entry], *, channels_last: bool = False
) -> dict[str, float]:
    """Return for each recipe the median of its time / the mean of the bare forward passes before and after it."""
    placement = Placement(memory_format=FORMATS[channels_last])
    placed, laid_out = placement.place(copy.deepcopy(network)), [placement.lay_out(batch) for batch in batches]
    models = {
        label: adapt(placed, recipe, source=laid_out[:4] if needs_source(recipe) else None, **keywords)
        for label, (recipe, keywords, _) in recipes.items()
    }

    def forward(batch: Tensor) -> None:
        with torch.no_grad():
            network(batch)

    ratios: dict[str, list[float]] = {label: [] for label in models}
    for round_, batch in enumerate(batches):
        for label, model in models.items():
            calls = ((forward, batch), (model, laid_out[round_]), (forward, batch))
            before, cost, after = (seconds(call, given) for call, given in calls)
            if round_ >= 2:  # the first batches include allocations
                ratios[label].append(2 * cost / (before + after))
    return {label: statistics.median(values) for label, values in ratios.items()}


def count_waits(network: CifarResNet, batches: list[Tensor], recipe: str, keywords: Mapping[str, Any]) -> int:
    """Return how often the host waits for the device in the last of some steps."""
    with PretendedDevice() as device:
        placed = [batch.to(device.name) for batch in batches]
        source = placed if needs_source(recipe) else None
        model = adapt(copy.deepcopy(network).to(device.name), recipe, source=source, **keywords)
        for batch in placed:
            with device.counting() as waits:
                model(batch)
    return sum(waits.values())


def measure_guards(
    network: CifarResNet, batches: list[Tensor], recipes: Mapping[str, Entry]
) -> dict[str, tuple[float, float]]:
    """Return the cost of the guards of each recipe: as a share of a bare forward, and of the recipe's own step."""
    shares = {}
    for label, (recipe, keywords, _) in recipes.items():
        model = adapt(network, recipe, source=batches[:4] if needs_source(recipe) else None, **keywords)

        def guards(batch: Tensor, model: AdaptedModel = model) -> None:
            network, parts, transactions = model.method.model, model._parts, model._transactions
            check_inputs(batch, network.input_spec, network.input_dtype)
            with transactions.settled():
                savepoints = transactions.savepoints(*parts.groups)  # after a step: what it has changed is copied anew
                with transactions.undoing(savepoints):
                    Pending(parts, transactions, batch, learning=True)._examine(batch, torch.zeros(len(batch), 10))

        def forward(batch: Tensor) -> None:
            with torch.no_grad():
                network(batch)

        model(batches[0])
        ratios = []
        for batch in batches[1:]:
            step, guard, bare = (seconds(call, batch) for call in (model, guards, forward))
            ratios.append((guard / bare, guard / step))
        shares[label] = (statistics.median(bare for bare, _ in ratios), statistics.median(own for _, own in ratios))
    return shares


def measure_memory(
    network: CifarResNet, batches: list[Tensor], recipe: str, keywords: Mapping[str, Any]
) -> tuple[float, float]:
    """Return the memory a recipe keeps besides the model, and its peak in a step, as multiples of the model's size."""
    size = sum(weights.nbytes for weights in network.parameters())
    before = held_bytes()
    model = adapt(network, recipe, source=batches if needs_source(recipe) else None, **keywords)
    for batch in batches:
        model(batch)
    held = held_bytes() - before - size  # without the adapted copy of the model
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        model(batches[-1])
    events = profiled.profiler.kineto_results.events()  # type: ignore[union-attr]
    changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
    peak = max(itertools.accumulate((nbytes for _, nbytes in changes), initial=0))
    return held / size, (held + peak) / size


def needs_source(recipe: str) -> bool:
    """Return whether a recipe needs source inputs before the first batch, or follows from their moments."""
    kind = resolve(recipe).kind
    return kind.needs_source or kind.uses_reference


def held_bytes() -> int:
    """Return the bytes of all live tensors."""
    gc.collect()
    tensors = (thing for thing in gc.get_objects() if isinstance(thing, Tensor))
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum(storages.values())


def seconds(call: Callable[[Tensor], Any], batch: Tensor) -> float:
    """Return the processor time of one call, which excludes other programs."""
    began = time.process_time()
    call(batch)
    return time.process_time() - began


if __name__ == "__main__":
    main()
