"""A pretended device: CPU tensors that behave as on an accelerator, for tests on machines without one.

Its tensors refuse to mix with the CPU's (zero-dimensional ones excepted, as on CUDA) and to be drawn from a CPU
generator, and every wait of the host for the device is counted with the line of holdfast that caused it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing

import holdfast

__all__ = ["NAME", "PretendedDevice", "PretendedTensor"]

NAME = "pretended"
HERE = Path(holdfast.__file__).resolve().parent
aten = torch.ops.aten

# Operations after which a host that continues needs a result of the device: a value, or the shape of a tensor.
WAITING = frozenset(
    {
        *(aten._local_scalar_dense, aten.equal, aten.is_nonzero, aten.nonzero, aten.masked_select),
        *(aten._unique2, aten.unique_dim, aten.unique_consecutive, aten.bincount, aten.argwhere),
        *(aten._linalg_eigh, aten._linalg_svd, aten.linalg_eig, aten._assert_async),
    }
)
MOVING = frozenset({aten._to_copy, aten.copy_})  # between devices
INDEXING = frozenset({aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_})


class PretendedTensor(Tensor):
    """A tensor whose values are on the CPU and whose device is the pretended one."""

    on_cpu: Tensor

    @staticmethod
    def __new__(cls, values: Tensor) -> PretendedTensor:
        """Return a tensor like `values` on the pretended device."""
        made: PretendedTensor = Tensor._make_wrapper_subclass(
            cls,
            values.shape,
            strides=values.stride(),
            storage_offset=values.storage_offset(),
            dtype=values.dtype,
            device=torch.device(NAME, 0),
        )
        made.on_cpu = values.detach()
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Carry out an operation outside of a `PretendedDevice` block: nothing is counted."""
        return _carried_out(func, args, kwargs or {})

    def tolist(self) -> Any:
        """Return nested lists: one transfer."""
        return self.cpu().tolist()

    def numpy(self, *, force: bool = False) -> Any:
        """Return an array, if `force` allows the transfer."""
        if not force:
            raise TypeError(f"can't convert a tensor on '{NAME}' to numpy; use Tensor.cpu() first")
        return self.cpu().numpy(force=True)

    def __repr__(self, *, tensor_contents: None = None) -> str:  # type: ignore[override]
        return f"PretendedTensor({self.on_cpu!r})"


class PretendedDevice:
    """Within the block there is a device `pretended`; `waits` counts the waits of the host by line.

    >>> with PretendedDevice() as device:
    ...     values = torch.ones(3, device=device.name) + 1
    ...     sum(device.waits.values()), values.device.type, values.sum().item(), sum(device.waits.values())
    (0, 'pretended', 6.0, 1)
    """

    name = NAME

    def __init__(self) -> None:
        _register()
        self.waits: Counter[str] = Counter()
        self._modes = ExitStack()

    def __enter__(self) -> PretendedDevice:
        self._modes.enter_context(_Functions())
        self._modes.enter_context(_Operations(self.waits))
        return self

    def __exit__(self, *error: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._modes.close()  # tensors of the device stay usable, uncounted

    @contextmanager
    def counting(self) -> Iterator[Counter[str]]:
        """Yield the waits within the block alone."""
        before = self.waits.copy()
        counts: Counter[str] = Counter()
        yield counts
        counts.update(self.waits - before)


class _Operations(TorchDispatchMode):
    """Carries out operations on tensors of the device or of the CPU, and counts what the host waits for."""

    def __init__(self, waits: Counter[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.waits = waits

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _waits(func, args, kwargs):
            self.waits[_line()] += 1
        return _carried_out(func, args, kwargs)


class _Functions(TorchFunctionMode):
    """Makes tensors and indices of Python numbers on the CPU first: torch asks no dispatch mode for these."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (Tensor.backward, torch.autograd.backward, torch.autograd.grad):
            # Without a thread for the device: torch starts these at the first backward pass of a process only.
            with torch.autograd.set_multithreading_enabled(False):
                return func(*args, **kwargs)
        if func in (torch.tensor, torch.as_tensor) and _is_pretended(kwargs.get("device")):
            return func(*args, **{**kwargs, "device": "cpu"}).to(NAME)
        if func in (Tensor.__getitem__, Tensor.__setitem__) and isinstance(args[0], PretendedTensor):
            index = args[1] if isinstance(args[1], tuple) else (args[1],)
            moved = tuple(torch.tensor(part).to(NAME) if isinstance(part, list) else part for part in index)
            return func(args[0], moved if isinstance(args[1], tuple) else moved[0], *args[2:])
        return func(*args, **kwargs)


def _register() -> None:
    """Register the device with torch, once in a process."""
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    if torch._C._get_privateuse1_backend_name() != NAME:
        _setup_privateuseone_for_python_backend(NAME)
        # Checkpointing and DataParallel ask a registered device for these, whether it is used or not.
        module = getattr(torch, NAME)
        module.is_available = lambda: False
        module.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]


def _is_pretended(device: Any) -> bool:
    return device is not None and torch.device(device).type == NAME


def _carried_out(func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
    """Run an operation on the values, and wrap what is on the device."""
    packet, wanted = func.overloadpacket, kwargs.get("device")
    tensors = list(_tensors((*args, *kwargs.values())))
    ours = any(isinstance(tensor, PretendedTensor) for tensor in tensors)
    on_device = _is_pretended(wanted) if wanted is not None else ours
    if packet in MOVING:
        if packet is aten.copy_:
            on_device = isinstance(args[0], PretendedTensor)
    elif ours:
        _refuse_mixing(func, tensors)
    if on_device and packet not in MOVING and kwargs.get("generator") is not None:
        raise RuntimeError(f"{func}: expected a '{NAME}' generator, got one of the CPU")
    inner_args = _mapped(args, PretendedTensor, _on_cpu)
    inner_kwargs = {key: _mapped(value, PretendedTensor, _on_cpu) for key, value in kwargs.items()}
    if _is_pretended(wanted):
        inner_kwargs["device"] = torch.device("cpu")
    inner_kwargs.pop("non_blocking", None)
    if inner_kwargs.get("pin_memory") is False:
        inner_kwargs.pop("pin_memory")
    result = func(*inner_args, **inner_kwargs)
    if not on_device:
        return result
    if packet is aten._to_copy and not ours and result is inner_args[0]:
        result = result.clone()
    wrapped = _mapped(result, Tensor, PretendedTensor)
    return return_and_correct_aliasing(func, args, kwargs, wrapped) if ours and _aliases(func) else wrapped


def _tensors(parts: Iterable[Any]) -> Iterator[Tensor]:
    """Yield the tensors among arguments, which are nested in lists and tuples only."""
    for part in parts:
        if isinstance(part, Tensor):
            yield part
        elif isinstance(part, (list, tuple)):
            yield from _tensors(part)


def _mapped(part: Any, kind: type[Tensor], change: Callable[[Any], Tensor]) -> Any:
    """Return the part with each tensor of a kind changed, within lists and tuples too."""
    if isinstance(part, kind):
        return change(part)
    return type(part)(_mapped(item, kind, change) for item in part) if type(part) in (list, tuple) else part


def _on_cpu(tensor: PretendedTensor) -> Tensor:
    return tensor.on_cpu


@cache
def _aliases(func: Any) -> bool:
    """Return whether an operation returns or changes one of its arguments."""
    return any(value.alias_info is not None for value in (*func._schema.arguments, *func._schema.returns))


def _refuse_mixing(func: Any, tensors: Sequence[Tensor]) -> None:
    foreign = [tensor for tensor in tensors if not isinstance(tensor, PretendedTensor) and tensor.dim() > 0]
    if foreign:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in foreign)
        raise RuntimeError(f"{func}: expected all tensors on '{NAME}', found some on the CPU, of shape {shapes}")


def _waits(func: Any, args: Any, kwargs: Mapping[str, Any]) -> bool:
    """Return whether the host waits for the device in this operation."""
    packet = func.overloadpacket
    if not any(isinstance(tensor, PretendedTensor) for tensor in _tensors((*args, *kwargs.values()))):
        return False
    if packet is aten._to_copy:
        wanted = kwargs.get("device")
        return wanted is not None and not _is_pretended(wanted)
    if packet is aten.copy_:
        return not isinstance(args[0], PretendedTensor)
    if packet in INDEXING:
        masks = any(isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8) for index in args[1])
        # CUDA fills with a single value without waiting.
        return masks and not (packet is not aten.index and args[2].numel() == 1)
    if packet is aten.repeat_interleave:
        return kwargs.get("output_size") is None
    return packet in WAITING


def _line() -> str:
    """Return the innermost line of holdfast that is being carried out, without this module."""
    frame = sys._getframe(1)
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if HERE in path.parents and "testing" not in path.parts:
            return f"{path.relative_to(HERE)}:{frame.f_lineno}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return "elsewhere"
