"""Checks of a network by itself: mode, output, normalisation, weights, dtype, device and memory format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from holdfast.blocks.wrapping import NormAccount, affine_parameters, norm_layers
from holdfast.diagnosis.findings import Finding
from holdfast.models.classifier import Classifier
from holdfast.models.memory_format import WORTHWHILE, channels_last_ratio, is_channels_last
from holdfast.models.outputs import are_probabilities
from holdfast.models.probing import called_parts, untouched

PROBE_SAMPLES = 4
DROPOUT = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout)
WITHOUT_LAYERS = "choose a method that changes no layer, such as 'neo', 't3a' or 'lame'"


def network_findings(model: Classifier, layers: Sequence[NormAccount]) -> Iterator[Finding]:
    """Yield what can be said of a network without any data."""
    shape = "×".join(map(str, model.input_spec.shape))
    head = "no head was found; pass head=" if model.head_name is None else f"head {model.head_name!r}"
    yield Finding("network", "ok", f"takes {model.input_spec.kind} inputs {shape}, {model.num_classes} classes, {head}")
    inputs = model.trial_inputs(PROBE_SAMPLES)
    yield _mode(model.module)
    yield _dropout(model.module)
    yield _output(model, inputs)
    yield from _normalisation(model.module, layers, inputs)
    yield _frozen(model.module)
    yield _weights(model.module)
    yield _dtype(model.module)
    yield _device(model.module)
    if model.input_spec.kind == "image":
        yield _memory_format(model.module, inputs)


def _mode(module: nn.Module) -> Finding:
    training = [name or "the network" for name, part in module.named_modules() if part.training]
    if not training:
        return Finding("mode", "ok", "eval mode")
    remedy = "call model.eval() before measuring it; adapt() always predicts in eval mode"
    return Finding("mode", "warn", f"{len(training)} modules are in training mode, first {training[0]}", remedy)


def _dropout(module: nn.Module) -> Finding:
    count = sum(isinstance(part, DROPOUT) and part.p > 0 for part in module.modules())
    return Finding("dropout", "ok", f"{count} dropout layers, inactive in eval mode" if count else "none")


def _output(model: Classifier, inputs: Tensor) -> Finding:
    with untouched(model.module):
        logits = model.read(model.module(inputs), len(inputs))
    if not torch.isfinite(logits).all():
        return Finding("output", "fail", "non-finite logits for random inputs in [0, 1]", "check the weights")
    if are_probabilities(logits):
        remedy = "return logits: take the softmax out, or pass output=lambda probabilities: probabilities.log()"
        return Finding("output", "fail", "the outputs are probabilities: there is a softmax in the model", remedy)
    if torch.allclose(logits.logsumexp(1), logits.new_zeros(()), atol=1e-3):
        return Finding("output", "ok", "log-probabilities, which serve as logits")
    return Finding("output", "ok", "logits")


def _normalisation(module: nn.Module, layers: Sequence[NormAccount], inputs: Tensor) -> Iterator[Finding]:
    if not layers:
        yield Finding(
            "normalisation", "warn", "no normalisation layer: most methods have nothing to adapt", WITHOUT_LAYERS
        )
        return
    counts = Counter((layer.treatment, layer.kind) for layer in layers)
    text = ", ".join(f"{count} {kind} {treatment}" for (treatment, kind), count in counts.items())
    refused = [layer for layer in layers if layer.treatment == "refused"]
    if refused:
        why = f"{text}; {refused[0].name} {refused[0].reason}"
        yield Finding("normalisation", "fail", why, f"build it with nn.BatchNorm2d, or {WITHOUT_LAYERS}")
    else:
        yield Finding("normalisation", "ok", text)
    called = called_parts(module, inputs)
    silent = [name for name, _ in norm_layers(module) if name not in called]
    if silent:
        remedy = "adaptation has no effect there; call the layer instead of reading its buffers"
        yield Finding("layers in use", "warn", f"{len(silent)} are never called, first {silent[0]}", remedy)


def _frozen(module: nn.Module) -> Finding:
    parameters = list(module.parameters())
    frozen = sum(not parameter.requires_grad for parameter in parameters)
    affine = sum(not parameter.requires_grad for parameter in affine_parameters(module))
    if affine:
        remedy = "adapt() trains them all the same; to keep some, pass frozen_layers= to methods that have it"
        return Finding("frozen weights", "warn", f"{affine} affine parameters do not require a gradient", remedy)
    return Finding("frozen weights", "ok", f"{frozen} of {len(parameters)} tensors do not require a gradient")


def _weights(module: nn.Module) -> Finding:
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            return Finding("weights", "fail", f"{name} has non-finite values", "load the checkpoint again")
    count = sum(parameter.numel() for parameter in module.parameters())
    size = sum(tensor.numel() * tensor.element_size() for tensor in (*module.parameters(), *module.buffers()))
    return Finding("weights", "ok", f"{count:,} parameters, {size / 2**20:.1f} MiB")


def _dtype(module: nn.Module) -> Finding:
    kinds = {str(tensor.dtype).removeprefix("torch.") for tensor in module.parameters() if tensor.is_floating_point()}
    if len(kinds) > 1:
        return Finding("dtype", "warn", f"mixed: {', '.join(sorted(kinds))}", "use one dtype, e.g. model.float()")
    (kind,) = kinds or {"float32"}
    if kind in ("float16", "bfloat16"):
        remedy = "updates of 1e-4 are lost to rounding; keep the weights in float32 and use torch.autocast"
        return Finding("dtype", "warn", kind, remedy)
    return Finding("dtype", "ok", kind)


def _device(module: nn.Module) -> Finding:
    devices = sorted({str(tensor.device) for tensor in (*module.parameters(), *module.buffers())})
    if len(devices) > 1:
        remedy = "move it to one device, e.g. model.to('cuda'); adapt() does not split networks"
        return Finding("device", "fail", f"weights on {', '.join(devices)}", remedy)
    return Finding("device", "ok", devices[0] if devices else "cpu")


def _memory_format(module: nn.Module, inputs: Tensor) -> Finding:
    if not any(isinstance(part, nn.Conv2d) for part in module.modules()):
        return Finding("memory format", "ok", "no convolution")
    if is_channels_last(module):
        return Finding("memory format", "ok", "channels_last")
    ratio = channels_last_ratio(module, inputs)
    if ratio < WORTHWHILE:
        remedy = "pass inputs with inputs.to(memory_format=torch.channels_last), or the whole model"
        return Finding("memory format", "warn", f"channels_last inputs take {ratio:.2f} × the time", remedy)
    return Finding("memory format", "ok", "contiguous, as fast as channels_last")
