"""Where a network computes and how: device, precision and memory format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import torch
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

Precision: TypeAlias = Literal["float32", "bfloat16", "float16"]
MemoryFormat: TypeAlias = Literal["contiguous", "channels_last"]

DEVICES = "auto, cpu, cuda, cuda:1 (any index) or mps"


def check_device(name: str) -> str:
    """Return the name of a device, or raise if torch knows no such kind; whether this machine has it does not matter.

    >>> check_device("cuda:1")
    'cuda:1'
    """
    if name == "auto":
        return name
    try:
        torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"device must be {DEVICES}, got {name!r}") from error
    return name


def resolve_device(name: str) -> str:
    """Return the device that `auto` stands for on this machine, and any other name unchanged.

    >>> resolve_device("cpu")
    'cpu'
    """
    if check_device(name) != "auto":
        return name
    return next((kind for kind in ("cuda", "mps") if _count(kind)), "cpu")


@dataclass(frozen=True)
class Placement:
    """The device, precision and memory format of a network and its inputs.

    `bfloat16` and `float16` compute under `torch.autocast`; the weights and the statistics stay in float32.

    >>> Placement("cpu", memory_format="channels_last").place(nn.Conv2d(3, 4, 3)).weight.is_contiguous()
    False
    >>> Placement("cuda:99").check()
    Traceback (most recent call last):
    ValueError: device 'cuda:99' is not available: torch sees no cuda device here; choose auto or cpu
    """

    device: str = "cpu"
    precision: Precision = "float32"
    memory_format: MemoryFormat = "contiguous"

    def __post_init__(self) -> None:
        check_device(self.device)
        for name, allowed in (("precision", get_args(Precision)), ("memory_format", get_args(MemoryFormat))):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}")

    @property
    def kind(self) -> str:
        """The device without its index: numbers depend on the kind only."""
        return self.device.partition(":")[0]

    @property
    def described(self) -> dict[str, str]:
        """Everything that differs from the CPU in float32, for protocols and names."""
        usual = Placement()
        described = {"device": self.kind, "precision": self.precision, "memory_format": self.memory_format}
        return {name: value for name, value in described.items() if value != getattr(usual, name)}

    def check(self) -> None:
        """Raise if this machine does not have the device."""
        device = torch.device(self.device)
        count = _count(device.type)
        if (device.index or 0) >= count:
            seen = f"only {count} {device.type} devices" if count else f"no {device.type} device"
            raise ValueError(f"device {self.device!r} is not available: torch sees {seen} here; choose auto or cpu")

    def place(self, network: nn.Module) -> nn.Module:
        """Move a network to the device and lay out its weights; return it."""
        self.check()
        network = network.to(self.device)
        if self.memory_format == "channels_last":
            network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return network

    def move(self, tensor: Tensor) -> Tensor:
        """Return a tensor on the device; the transfer to a GPU is from pinned memory, and the host does not wait."""
        if self.kind == "cuda" and tensor.device.type == "cpu":
            return tensor.pin_memory().to(self.device, non_blocking=True)
        return tensor.to(self.device)

    def lay_out(self, inputs: Tensor) -> Tensor:
        """Return inputs in the memory format of the network."""
        wanted = self.memory_format == "channels_last" and inputs.dim() == 4
        return inputs.contiguous(memory_format=torch.channels_last) if wanted else inputs

    def computing(self) -> AbstractContextManager[None]:
        """Compute in this precision within the block."""
        if self.precision == "float32":
            return nullcontext()
        return torch.autocast(self.kind, getattr(torch, self.precision))

    def wait(self) -> None:
        """Wait until everything that was asked of the device is done, for example before reading a clock."""
        if self.kind != "cpu":
            torch.accelerator.synchronize(self.device)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Compute with this many threads, in torch and in the BLAS of numpy and scipy.

    With one, sums have one order, and what is computed does not depend on the number of cores.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        with threadpool_limits(count, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(before)


def _count(kind: str) -> int:
    """Return how many devices of a kind this machine has."""
    if kind == "cpu":
        return 1
    module = getattr(torch, kind, None)
    if module is None or not module.is_available():
        return 0
    return int(module.device_count())
