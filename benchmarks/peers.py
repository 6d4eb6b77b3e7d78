"""Time plain loops of TENT, ETA, CoTTA and ROID beside ours: `python benchmarks/peers.py [--batch-size 64]`.

The loops are written here in some twenty lines each, as people write them in a notebook: no checks of inputs, no state
to return to, no estimates. Both see the same batches with the same weights and options, and alternate batch by batch on
one thread. `ratio` is the median over batches of our time / the time of the loop (below 1: ours is faster), in the
network's own memory format and with channels last; `forwards` are times of a bare forward pass. CoTTA uses no views, so
that both do the same work whatever the confidence is, and ROID's view of a batch is made by the same function. Single
samples of a tiny network, whose passes take next to nothing, show what the Python around a step costs.
"""

from __future__ import annotations

import argparse
import copy
import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from measured import run
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast import adapt
from holdfast.blocks.views import named_view
from holdfast.models.cifar_resnet import CifarResNet
from holdfast.models.tiny import tiny_resnet

SGD: dict[str, Any] = {"optimizer": "sgd", "lr": 1e-3, "momentum": 0.9}
Loop = Callable[[Tensor], Tensor]


def with_batch_statistics(network: nn.Module, *, train_all: bool = False) -> tuple[nn.Module, torch.optim.SGD]:
    """Return a copy that normalises by batch, and the optimiser of its affine parameters or of all."""
    model = copy.deepcopy(network).train().requires_grad_(train_all)
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.requires_grad_(True)
            layer.track_running_stats, layer.running_mean, layer.running_var = False, None, None
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    return model, torch.optim.SGD(trained, lr=SGD["lr"], momentum=SGD["momentum"])


def entropy(logits: Tensor) -> Tensor:
    """Return the entropy of each prediction."""
    return -(logits.softmax(1) * logits.log_softmax(1)).sum(1)


def tent(network: nn.Module) -> Loop:
    """Return a loop of TENT (Wang et al., ICLR 2021)."""
    model, optimizer = with_batch_statistics(network)

    def step(inputs: Tensor) -> Tensor:
        logits: Tensor = model(inputs)
        entropy(logits).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        return logits.detach()

    return step


def eta(network: nn.Module) -> Loop:
    """Return a loop of ETA (Niu et al., ICML 2022): reliable samples that are not redundant."""
    model, optimizer = with_batch_statistics(network)
    mean_probs: Tensor | None = None

    def step(inputs: Tensor) -> Tensor:
        nonlocal mean_probs
        logits: Tensor = model(inputs)
        uncertainty, probs = entropy(logits), logits.detach().softmax(1)
        margin = 0.4 * math.log(logits.shape[1])
        chosen = uncertainty.detach() < margin
        if mean_probs is not None:
            chosen &= F.cosine_similarity(mean_probs[None], probs, dim=1).abs() < 1.0  # noise is all alike
        if chosen.any():
            mean = probs[chosen].mean(0)
            mean_probs = mean if mean_probs is None else 0.9 * mean_probs + 0.1 * mean
            kept = uncertainty[chosen]
            ((margin - kept.detach()).exp() * kept).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        return logits.detach()

    return step


def cotta(network: nn.Module) -> Loop:
    """Return a loop of CoTTA (Wang et al., CVPR 2022): a teacher, an anchor that judges it, and random restoring."""
    model, optimizer = with_batch_statistics(network, train_all=True)
    teacher, anchor = copy.deepcopy(model).requires_grad_(False), copy.deepcopy(model).requires_grad_(False)
    weights = list(zip(model.parameters(), teacher.parameters(), anchor.parameters(), strict=True))

    def step(inputs: Tensor) -> Tensor:
        with torch.no_grad():
            float(anchor(inputs).softmax(1).amax(1).mean())  # the confidence that decides on views
            target: Tensor = teacher(inputs)
        loss = -(target.softmax(1) * model(inputs).log_softmax(1)).sum(1).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            for own, followed, source in weights:
                followed.mul_(0.999).add_(own, alpha=0.001)
                own.copy_(torch.where(torch.rand_like(own) < 0.01, source, own))
        return target

    return step


def roid(network: nn.Module) -> Loop:
    """Return a loop of ROID (Marsden et al., WACV 2024): weighted likelihood ratios, consistency, weight averages."""
    model, optimizer = with_batch_statistics(network)
    trained = optimizer.param_groups[0]["params"]
    source, classes = [weight.detach().clone() for weight in trained], 10
    mean_probs, augment = torch.full((classes,), 1 / classes), named_view("roid", "image", torch.zeros(2, 3, 32, 32))[1]
    rng = torch.Generator().manual_seed(0)

    def unit(values: Tensor) -> Tensor:
        return (values - values.min()) / (values.max() - values.min()).clamp_min(1e-12)

    def step(inputs: Tensor) -> Tensor:
        nonlocal mean_probs
        logits: Tensor = model(inputs)
        probs = logits.detach().softmax(1)
        diversity = unit(1 - F.cosine_similarity(mean_probs[None], probs, dim=1))
        weights = (3 * diversity * unit(-entropy(logits.detach()))).exp()
        kept = diversity >= diversity.mean()
        mean_probs = 0.9 * mean_probs + 0.1 * probs.mean(0)
        own, viewed = logits[kept], model(augment(inputs[kept], rng))
        sure = own.softmax(1).clamp(1e-5, 0.99)
        ratio = -(sure * (sure / (1 - sure)).log()).sum(1)
        both = [-(one.softmax(1) * other.log_softmax(1)).sum(1) for one, other in ((own, viewed), (viewed, own))]
        ((ratio + (both[0] + both[1]) / 2) * weights[kept]).sum().div(len(inputs)).backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            for weight, before in zip(trained, source, strict=True):
                weight.mul_(0.99).add_(before, alpha=0.01)
        shares = probs.mean(0)
        smoothing = max(1 / len(inputs), 1 / classes) / shares.max()
        return logits.detach() * ((shares + smoothing) / (1 + smoothing * classes))

    return step


PEERS: dict[str, tuple[Callable[[nn.Module], Loop], dict[str, Any]]] = {
    "tent": (tent, SGD),
    "eta": (eta, {**SGD, "redundancy_margin": 1.0}),
    "cotta": (cotta, {**SGD, "preset": "imagenet-c", "confidence_threshold": 0.0, "symmetric": False}),
    "roid": (roid, {**SGD, "loss_divisor": None}),
}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Return for each method its time / that of the plain loop, and both as multiples of a forward pass."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    network = CifarResNet().eval()
    with torch.no_grad():
        network.fc.weight.mul_(100)  # as sure as a trained network, so that ETA finds reliable samples
    rounds = 4 if options.quick else options.rounds
    draws = torch.Generator().manual_seed(1)
    batches = [torch.rand(options.batch_size, 3, 32, 32, generator=draws) for _ in range(rounds + 2)]
    figures: dict[str, Any] = {}
    for name in options.method or PEERS:
        peer, keywords = PEERS[name]
        laid_out = copy.deepcopy(network).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        calls: dict[str, Loop] = {
            "forward": torch.no_grad()(network),
            "peer": peer(network),
            "ours": adapt(network, name, **keywords),
            "ours, channels last": adapt(laid_out, name, **keywords),
        }
        times = alternated(calls, batches)
        figures[name] = {
            "ratio": median_ratio(times["ours"], times["peer"]),
            "ratio, channels last": median_ratio(times["ours, channels last"], times["peer"]),
            "forwards": median_ratio(times["ours"], times["forward"]),
            "peer's forwards": median_ratio(times["peer"], times["forward"]),
        }
    if not options.method:
        figures["single samples, tiny network"] = single_samples(batches=20 * rounds)
    return figures


def single_samples(batches: int) -> dict[str, float]:
    """Return the cost of `source` in forward passes, and that of TENT in steps of its loop, at one sample a step."""
    network = tiny_resnet()
    calls: dict[str, Loop] = {
        "forward": torch.no_grad()(network),
        "source": adapt(network, "source"),
        "loop": tent(network),
        "tent": adapt(network, "tent", **SGD),
    }
    times = alternated(calls, list(torch.rand(batches, 1, 3, 32, 32, generator=torch.Generator().manual_seed(2))))
    return {
        "source / forward": median_ratio(times["source"], times["forward"]),
        "tent / plain loop": median_ratio(times["tent"], times["loop"]),
    }


def alternated(calls: dict[str, Loop], batches: list[Tensor]) -> dict[str, list[float]]:
    """Return the times of each call on each batch but the first two, which include allocations."""
    times: dict[str, list[float]] = {label: [] for label in calls}
    for number, batch in enumerate(batches):
        for label, call in calls.items():
            given = batch.contiguous(memory_format=torch.channels_last) if "last" in label else batch
            seconds = elapsed(call, given)
            if number >= 2:
                times[label].append(seconds)
    return times


def elapsed(call: Loop, batch: Tensor) -> float:
    """Return the processor time of one call, which excludes other programs."""
    began = time.process_time()
    call(batch)
    return time.process_time() - began


def median_ratio(ours: list[float], theirs: list[float]) -> float:
    """Return the median of the ratios of times, batch by batch.

    >>> median_ratio([2.0, 9.0, 3.0], [1.0, 3.0, 2.0])
    2.0
    """
    return statistics.median(one / other for one, other in zip(ours, theirs, strict=True))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--method", action="append", choices=list(PEERS), help="only this one; may be repeated")
    run(parser, measure)


if __name__ == "__main__":
    main()
