"""Wrap any torch classifier: find its inputs, classes, head and normalisation by probing it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from holdfast.models.inputs import NamedInput, taking_tensors
from holdfast.models.normalised import unwrapped
from holdfast.models.outputs import Output, finish, logits_of
from holdfast.models.probing import name_candidates, place_of, probe, random_inputs, repeated
from holdfast.models.stages import find_blocks, find_stages

Normalisation = Literal["batch", "group", "layer", "instance", "none"]

NORM_KINDS: dict[Normalisation, tuple[type[nn.Module], ...]] = {
    "batch": (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm),
    "group": (nn.GroupNorm,),
    "layer": (nn.LayerNorm, nn.RMSNorm),
    "instance": (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d),
}


class Classifier(nn.Module):
    """A network that returns logits, with its input shape, classes, head and normalisation.

    The network is neither copied nor changed. The input size is found by trial; a fully convolutional network accepts
    many, so pass an `example` if the size matters: a batch, or a mapping with one batch for a network that takes it by
    name. `output` says where the logits are in what the network returns.

    Args:
        module: the network.
        example: a batch of inputs, or a mapping with one for a network that takes it by name; only needed if probing
            the network does not find its inputs.
        head: name of the last layer; only needed if probing does not find it.
        output: where the logits are if the network returns a tuple, a mapping or a single logit: an index, a key,
            "binary", or a function.

    >>> from holdfast.models.tiny import tiny_resnet
    >>> classifier = Classifier(tiny_resnet("group"))
    >>> classifier.num_classes, classifier.input_spec.shape, classifier.head_name, classifier.normalisation
    (10, (3, 32, 32), 'fc', 'group')
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        example: Tensor | Mapping[str, Tensor] | None = None,
        head: str | None = None,
        output: Output = None,
    ) -> None:
        super().__init__()
        network = unwrapped(module)
        check_usable(network)
        self.module, example = taking_tensors(network, example)
        if head is not None and isinstance(self.module, NamedInput):
            head = f"module.{head}"
        self.training = self.module.training
        self.samples_forwarded = 0
        self.trainable: tuple[bool, ...] = ()  # of a copy: which weights of the caller's network require gradients
        self.output = output
        probed = probe(self.module, example, head, output)
        self.input_spec = probed.input_spec
        self.num_classes = probed.num_classes
        self.head_name = probed.head_name
        self.normalisation = main_normalisation(self.module)
        self._feature_shape = probed.feature_shape
        self._head_candidates = probed.head_candidates
        self._integers = probed.integers

    @property
    def head(self) -> nn.Module | None:
        """The layer whose output is the logits, if one was found."""
        return None if self.head_name is None else self.module.get_submodule(self.head_name)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return place_of(self.module)[0]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights."""
        return place_of(self.module)[1]

    @property
    def feature_width(self) -> int:
        """The number of values at the input of the head, for one sample."""
        self._known_head()
        return math.prod(self._feature_shape)

    @property
    def input_dtype(self) -> torch.dtype:
        """The dtype of the inputs: that of the weights, unless the network takes integers."""
        return self.dtype if self._integers is None else self._integers.dtype

    def trial_inputs(self, samples: int = 2) -> Tensor:
        """Return inputs to try the network on, the same every time: random, or integers that it is known to take.

        >>> from holdfast.models.tiny import tiny_resnet
        >>> Classifier(tiny_resnet()).trial_inputs().shape
        torch.Size([2, 3, 32, 32])
        """
        if self._integers is None:
            return random_inputs(self.module, self.input_spec.shape, samples)
        return repeated(self._integers, samples).to(self.device)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits, (batch, classes), and count the samples."""
        self.samples_forwarded += len(inputs)
        return self.read(self.module(inputs), len(inputs))

    def begin_as_copy(self, original: Classifier) -> None:
        """Count samples from zero, and know which weights of the original require gradients."""
        self.samples_forwarded = 0
        self.trainable = tuple(parameter.requires_grad for parameter in original.parameters())

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Do not count the samples that go through inside the block."""
        before = self.samples_forwarded
        try:
            yield
        finally:
            self.samples_forwarded = before

    def by(self, module: nn.Module, inputs: Tensor) -> Tensor:
        """Return the logits of another module that computes the same, and count the samples here."""
        self.samples_forwarded += len(inputs)
        return self.read(module(inputs), len(inputs))

    def read(self, returned: object, batch_size: int) -> Tensor:
        """Return the logits in what the network returned."""
        return _whole(logits_of(returned, batch_size, self.output))

    def forward_with_features(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits and features, (batch, width), of one pass."""
        received: list[Tensor] = []
        with self._known_head().register_forward_pre_hook(lambda _, args: received.append(args[0])):
            logits = self(inputs)
        return logits, _whole(received[-1].flatten(1))

    def encode(self, inputs: Tensor) -> Tensor:
        """Return the features, (batch, width): the input of the head."""
        return self.forward_with_features(inputs)[1]

    def classify(self, features: Tensor) -> Tensor:
        """Return the head's logits for features, (batch, width)."""
        head = self._known_head()
        features = features.reshape(len(features), *self._feature_shape)  # a 1×1 convolution needs its axes
        logits: Tensor = head(features)
        return _whole(finish(logits.flatten(1), self.output))

    def norm_layers(self) -> dict[str, nn.Module]:
        """Return the current normalisation layers of known types, by name."""
        kinds = tuple(kind for group in NORM_KINDS.values() for kind in group)
        return {name: part for name, part in self.module.named_modules() if isinstance(part, kinds)}

    def stages(self) -> list[tuple[str, nn.Module]]:
        """Return the main stages between stem and head, by name; an empty list for a plain chain of layers."""
        return find_stages(self.module, self.head_name)

    def blocks(self) -> list[tuple[str, nn.Module]]:
        """Return the residual or transformer blocks of all stages, by name; an empty list for a plain chain."""
        return find_blocks(self.module, self.head_name)

    def _known_head(self) -> nn.Module:
        head = self.head
        if head is None:
            advice = name_candidates(self._head_candidates)
            raise ValueError(f"no linear layer of {type(self.module).__name__} returns the logits; {advice}")
        return head


def classifier_of(module: nn.Module, batch: Tensor, head: str | None = None, output: Output = None) -> Classifier:
    """Return a network as a classifier of floating-point inputs like these, or of integers if it takes nothing else.

    A network that scales bytes itself takes both; only the caller, who has its data, can say that it takes bytes.

    >>> tokens = torch.zeros(1, 4, dtype=torch.int64)
    >>> network = nn.Sequential(nn.Embedding(9, 2), nn.Flatten(), nn.Linear(8, 3))
    >>> classifier_of(network, tokens).input_dtype, classifier_of(nn.Linear(4, 3), tokens).input_dtype
    (torch.int64, torch.float32)
    """
    try:
        return Classifier(module, example=batch.float(), head=head, output=output)
    except (ValueError, TypeError):
        if batch.is_floating_point():
            raise
        return Classifier(module, example=batch, head=head, output=output)


def check_usable(network: nn.Module) -> None:
    """Raise for a network whose layers cannot be changed or whose weights do not exist yet."""
    if isinstance(network, torch.jit.ScriptModule):
        raise ValueError("TorchScript networks cannot be adapted, their layers are fixed; pass the Python network")
    for name, part in network.named_modules():
        if isinstance(part, torch.jit.ScriptModule) and any(True for _ in part.parameters()):
            raise ValueError(
                f"{name!r} is TorchScript, whose layers are fixed; build the network with the Python layer"
            )
    for name, tensor in chain(network.named_parameters(), network.named_buffers()):
        if is_lazy(tensor):
            raise ValueError(
                f"{name!r} has no values yet, because the network has lazy layers; call it once on a batch, load its "
                "weights, and adapt it then"
            )


def _whole(values: Tensor) -> Tensor:
    """Return values in single precision under autocast, where networks compute in half: what follows is statistics."""
    return values.float() if torch.is_autocast_enabled(values.device.type) else values


def main_normalisation(module: nn.Module) -> Normalisation:
    """Return the kind of normalisation that most layers of a network have.

    >>> main_normalisation(nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)))
    'layer'
    """
    parts = list(module.modules())
    counts = {name: sum(isinstance(part, kinds) for part in parts) for name, kinds in NORM_KINDS.items()}
    # Frozen copies of BatchNorm are modules of their own, with its buffers.
    known = tuple(kind for kinds in NORM_KINDS.values() for kind in kinds)
    counts["batch"] += sum("running_mean" in part._buffers for part in parts if not isinstance(part, known))
    most = max(counts, key=lambda name: counts[name])
    return most if counts[most] else "none"


def weights_digest(module: nn.Module) -> str:
    """Return the hex digest of all parameters and buffers: name, type, shape and every bit of the values.

    >>> weights_digest(nn.Linear(2, 2)) == weights_digest(nn.Linear(2, 2))
    False
    """
    module = unwrapped(module)
    content = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(chain(module.named_parameters(), module.named_buffers())):
        content.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        # As bytes first: numpy knows no bfloat16, and a scalar must become a vector to be viewed as bytes.
        content.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return content.hexdigest()
