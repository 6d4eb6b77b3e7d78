"""Find the input shape, classes and head of a network by running it on random inputs, and leave it unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import torch
from torch import Tensor, nn

from holdfast.models.outputs import Output, WrongOutputError, logits_of, pick
from holdfast.records import InputSpec
from holdfast.registry import nearest

IMAGE_SIZES = (32, 28, 64, 96, 224, 256, 299, 384)
TOKEN_LENGTHS = (16, 32, 64, 128, 256, 512)
WAVEFORM_LENGTHS = (16_000, 8_000, 32_000, 44_100, 48_000, 80_000, 160_000)
# Networks raise these for an input of the wrong shape; other exceptions are errors of the network and pass through.
REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, AssertionError)


class NoInputsError(ValueError):
    """No inputs were found that the network takes."""


@dataclass(frozen=True)
class Probe:
    """The findings of running a network on random inputs."""

    input_spec: InputSpec
    num_classes: int
    head_name: str | None
    feature_shape: tuple[int, ...]  # of one sample at the head's input; empty without a head
    head_candidates: tuple[str, ...]  # every module whose output is the logits
    integers: Tensor | None  # inputs that the network took, if it takes integers


def probe(module: nn.Module, example: Tensor | None = None, head: str | None = None, output: Output = None) -> Probe:
    """Return the input shape, the number of classes and the head of a network.

    >>> probe(nn.Sequential(nn.Flatten(), nn.Linear(12, 5)), example=torch.zeros(1, 3, 2, 2)).head_name
    '1'
    """
    with untouched(module):
        inputs = find_inputs(module, example, output)
        logits, arrivals = trace_logits(module, inputs, output)
    head_name = choose_head(module, arrivals, head)
    return Probe(
        spec_of(module, inputs),
        logits.shape[1],
        head_name,
        arrivals[head_name] if head_name is not None else (),
        tuple(arrivals),
        None if inputs.is_floating_point() else inputs,
    )


def place_of(module: nn.Module) -> tuple[torch.device, torch.dtype]:
    """Return device and type of a network's first floating-point weight."""
    for tensor in chain(module.parameters(), module.buffers()):
        if tensor.is_floating_point():
            return tensor.device, tensor.dtype
    return torch.device("cpu"), torch.get_default_dtype()


@contextmanager
def untouched(module: nn.Module) -> Iterator[None]:
    """Run in eval mode without gradients, then put back modes, buffers and the state of the random generators."""
    device, _ = place_of(module)
    modes = [(part, part.training) for part in module.modules()]
    buffers = [
        (part, name, buffer, buffer.clone())
        for part in module.modules()
        for name, buffer in part._buffers.items()
        if buffer is not None
    ]
    with torch.no_grad(), torch.random.fork_rng([device] if device.type == "cuda" else []):
        try:
            for part, _ in modes:
                part.training = False  # not .eval(), which a network may override
            yield
        finally:
            for part, mode in modes:
                part.training = mode
            for part, name, buffer, before in buffers:
                part._buffers[name] = buffer
                if not torch.equal(buffer, before):
                    buffer.copy_(before)


def called_parts(module: nn.Module, inputs: Tensor) -> set[str]:
    """Return the names of the modules that a network calls in eval mode, and leave it unchanged.

    >>> sorted(called_parts(nn.Sequential(nn.Linear(2, 2)), torch.zeros(1, 2)))
    ['', '0']
    """
    called: set[str] = set()

    def keep(name: str) -> Callable[[nn.Module, Any], None]:
        return lambda _part, _args: called.add(name)

    with untouched(module), ExitStack() as hooks:
        for name, part in module.named_modules(remove_duplicate=False):
            if not isinstance(part, torch.jit.ScriptModule):  # which take no hooks
                hooks.callback(part.register_forward_pre_hook(keep(name)).remove)
        module(inputs)
    return called


def find_inputs(module: nn.Module, example: Tensor | None, output: Output = None) -> Tensor:
    """Return a batch of two inputs for which the network returns two rows of logits."""
    refusal: Exception | None = None
    wrong_output: WrongOutputError | None = None
    for inputs in [example_pair(module, example)] if example is not None else guessed_pairs(module):
        try:
            logits_of(module(inputs), len(inputs), output)
        except WrongOutputError as error:
            wrong_output = wrong_output or error
        except REFUSALS as error:
            refusal = error
        else:
            return inputs
    if wrong_output is not None:
        raise wrong_output
    if example is not None and not example.is_floating_point() and _takes(module, example.float(), output):
        raise ValueError(
            f"the example is {example.dtype}, and {type(module).__name__} takes floating-point inputs; pass them "
            "scaled as in training, e.g. example=inputs.float() / 255"
        ) from refusal
    shape = "any of the sizes tried" if example is None else f"inputs of shape {tuple(example.shape)}"
    remedy = (
        "choose data that fit the network, or pass an example that it accepts: example=torch.zeros(1, 3, H, W) for "
        "images, example=torch.zeros(1, N) for audio, example={name: tensor} for inputs by name"
    )
    why = "" if example is None or not str(refusal or "") else f" ({str(refusal).splitlines()[0]})"
    raise NoInputsError(f"{type(module).__name__} does not accept {shape}{why}; {remedy}") from refusal


def _takes(module: nn.Module, example: Tensor, output: Output) -> bool:
    try:
        find_inputs(module, example, output)
    except ValueError:
        return False
    return True


def random_inputs(module: nn.Module, shape: tuple[int, ...], samples: int) -> Tensor:
    """Return random inputs in [0, 1) in the dtype and on the device of a network, the same every time."""
    device, dtype = place_of(module)
    drawn = torch.rand((samples, *shape), generator=torch.Generator().manual_seed(0), device="cpu")
    return drawn.to(device, dtype)


def example_pair(module: nn.Module, example: Tensor) -> Tensor:
    """Return two inputs of the example's shape: random, unless it holds integers, which may be indices."""
    if example.is_floating_point():
        return random_inputs(module, tuple(example.shape[1:]), 2)
    return repeated(example, 2).to(place_of(module)[0])


def repeated(rows: Tensor, samples: int) -> Tensor:
    """Return this many samples: the rows, again and again.

    >>> repeated(torch.tensor([1, 2]), 3)
    tensor([1, 2, 1])
    """
    return rows[torch.arange(samples, device=rows.device) % len(rows)]


def guessed_pairs(module: nn.Module) -> Iterator[Tensor]:
    """Yield random inputs of every plausible shape, the likeliest first; then integers: indices and bytes."""
    shapes = dict.fromkeys((*declared_shapes(module), *shapes_by_first_layer(module)))
    for shape in shapes:
        yield random_inputs(module, shape, 2)
    table = next((part for part in module.modules() if isinstance(part, nn.Embedding)), None)
    if table is not None:
        generator, device = torch.Generator().manual_seed(0), place_of(module)[0]
        for length in TOKEN_LENGTHS:
            yield torch.randint(table.num_embeddings, (2, length), generator=generator).to(device)
    for shape in shapes:
        if len(shape) == 3:
            yield (255 * random_inputs(module, shape, 2)).to(torch.uint8)


def declared_shapes(module: nn.Module) -> Iterator[tuple[int, ...]]:
    """Yield the shapes that a network declares: our `input_spec`, timm's `default_cfg`, Hugging Face's `config`."""
    for part in module.modules():
        own = getattr(part, "input_spec", None)
        if isinstance(own, InputSpec):
            yield own.shape
        timm = getattr(part, "default_cfg", None)
        if isinstance(timm, Mapping) and "input_size" in timm:
            yield tuple(timm["input_size"])
        hugging_face = getattr(part, "config", None)
        size = getattr(hugging_face, "image_size", None)
        if size is not None:
            height, width = (size, size) if isinstance(size, int) else size
            yield (getattr(hugging_face, "num_channels", 3), height, width)


def shapes_by_first_layer(module: nn.Module) -> Iterator[tuple[int, ...]]:
    """Yield the shapes that fit the first layer of each kind, in order of definition."""
    seen: set[type] = set()
    for part in module.modules():
        kind = next((kind for kind in (nn.Conv2d, nn.Conv1d, nn.Linear) if isinstance(part, kind)), None)
        if kind is None or kind in seen:
            continue
        seen.add(kind)
        if isinstance(part, nn.Conv2d):
            yield from ((part.in_channels, size, size) for size in IMAGE_SIZES)
        if isinstance(part, nn.Linear):
            yield (part.in_features,)
        # A single channel, or more than a recording has, may be made inside the network: then it takes waveforms.
        if isinstance(part, nn.Conv1d | nn.Conv2d) and part.in_channels == 1:
            yield from ((length,) for length in WAVEFORM_LENGTHS)
        if isinstance(part, nn.Conv1d):
            if part.in_channels > 2:
                yield from ((length,) for length in WAVEFORM_LENGTHS)
            yield from ((part.in_channels, length) for length in WAVEFORM_LENGTHS)


def spec_of(module: nn.Module, inputs: Tensor) -> InputSpec:
    """Return the specification of such inputs: declared by a part of the network, or guessed from their axes."""
    shape = tuple(inputs.shape[1:])
    stated = (getattr(part, "input_spec", None) for part in module.modules())
    own = next((spec for spec in stated if isinstance(spec, InputSpec) and spec.shape == shape), None)
    return own or InputSpec(kind_of(module, inputs), shape)


def kind_of(module: nn.Module, inputs: Tensor) -> Literal["image", "audio", "other"]:
    """Return the kind of such inputs: three axes are an image, convolved inputs with fewer axes are audio."""
    if inputs.dim() == 4:
        return "image"
    if not inputs.is_floating_point():
        return "other"
    convolved = any(isinstance(part, nn.Conv1d | nn.Conv2d) for part in module.modules())
    return "audio" if convolved and inputs.dim() in (2, 3) else "other"


def trace_logits(module: nn.Module, inputs: Tensor, output: Output = None) -> tuple[Tensor, dict[str, tuple[int, ...]]]:
    """Return the logits and, for every module that returns exactly them, innermost first, its input shape.

    Two samples cannot tell a layer from the same layer with a ReLU behind it if all their values are positive. So the
    network runs a second time with the output of the innermost module replaced by values of both signs.
    """
    size = pick(module(inputs), output).numel()
    signs = torch.linspace(-3, 3, size)
    replaced: str | None = None
    calls: list[tuple[str, tuple[int, ...], Tensor]] = []

    def watch(name: str) -> Callable[[nn.Module, Any, Any], Tensor | None]:
        def note(_: nn.Module, args: Any, output: Any) -> Tensor | None:
            if not (isinstance(output, Tensor) and output.numel() == size and args and isinstance(args[0], Tensor)):
                return None
            if name == replaced:
                output = signs.to(output).view_as(output)
            # A copy: later in-place changes are not part of this module.
            calls.append((name, tuple(args[0].shape[1:]), output.clone().reshape(len(inputs), -1)))
            return output if name == replaced else None

        return note

    def returning_the_logits() -> tuple[Any, dict[str, tuple[int, ...]]]:
        calls.clear()
        returned = module(inputs)
        picked = pick(returned, output).reshape(len(inputs), -1)
        return returned, {name: shape for name, shape, result in calls if torch.equal(result.to(picked.dtype), picked)}

    with ExitStack() as hooks:
        for name, part in module.named_modules():
            if not isinstance(part, torch.jit.ScriptModule):  # which take no hooks
                hooks.callback(part.register_forward_hook(watch(name)).remove)
        returned, same = returning_the_logits()
        logits = logits_of(returned, len(inputs), output)
        replaced = next((name for name in same if name), None)
        if replaced is not None:
            _, still = returning_the_logits()
            same = {name: shape for name, shape in same.items() if name in still}
    return logits, same


def choose_head(module: nn.Module, arrivals: Mapping[str, tuple[int, ...]], head: str | None) -> str | None:
    """Return the name of the head: the given one, or the innermost layer with a weight matrix."""
    if head is None:
        layers = (name for name in arrivals if has_weight_matrix(module.get_submodule(name)))
        # The whole network is not a head unless it is a single layer: its features would be the inputs.
        return next((name for name in layers if name or not list(module.children())), None)
    names = [name for name, _ in module.named_modules()]
    if head not in names:
        raise ValueError(f"{type(module).__name__} has no module {head!r}; {nearest(head, names)}")
    if head not in arrivals:
        raise ValueError(f"the output of {head!r} is not the logits; {name_candidates(arrivals)}")
    return head


def has_weight_matrix(part: nn.Module) -> bool:
    """Return whether a module has a weight matrix, as linear layers have and normalisation has not."""
    weight = getattr(part, "weight", None)
    return isinstance(weight, Tensor) and weight.dim() >= 2


def name_candidates(candidates: Mapping[str, Any] | tuple[str, ...]) -> str:
    """Return the advice on which head to pass."""
    names = [repr(name) for name in candidates if name]
    if names:
        return f"pass head='...' with one of {', '.join(names)}"
    return "make the last step a separate layer and pass head='...' with its name"
