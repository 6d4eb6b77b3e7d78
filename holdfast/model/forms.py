"""Forms of an exported network: a module, a program of torch.export, or an ONNX file."""

from __future__ import annotations

import importlib.util
import io
import logging
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn

from holdfast.machine.folders import write_whole
from holdfast.methods._graph import AdaptingGraph, State

Form: TypeAlias = Literal["module", "torch", "onnx"]
OPSET = 18  # of ONNX


def in_form(
    module: nn.Module, form: Form, example: Tensor, path: str | Path | None = None
) -> nn.Module | torch.export.ExportedProgram | Path:
    """Return a module as it is, as a program of torch.export, or the path of the ONNX file that was written.

    >>> in_form(nn.Linear(3, 2), "module", torch.rand(4, 3))
    Linear(in_features=3, out_features=2, bias=True)
    """
    if form not in get_args(Form):
        raise ValueError(f"form must be 'module', 'torch' or 'onnx', got {form!r}")
    if form == "module":
        return module
    if form == "onnx" and path is None:
        raise ValueError("an ONNX network is a file: pass path='network.onnx'")
    if form == "onnx" and (missing := [name for name in ("onnx", "onnxscript") if not importlib.util.find_spec(name)]):
        raise ImportError(f"writing ONNX needs {' and '.join(missing)}: pip install 'holdfast[onnx]'")
    try:
        with _quiet():
            program = _program(module.eval(), example)
            if form == "torch":
                if path is not None:
                    torch.export.save(program, path)
                return program
            content = _onnx(program, module)
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"torch cannot write this network as a graph ({type(error).__name__}: {reason}); its forward may depend on "
            "values of its inputs, or use an operation that ONNX lacks"
        ) from error
    write_whole(Path(str(path)), content)
    return Path(str(path))


def _program(module: nn.Module, example: Tensor) -> torch.export.ExportedProgram:
    """Return a program for any batch size."""
    state = module.initial if isinstance(module, AdaptingGraph) else ()
    shapes = ({0: torch.export.Dim.DYNAMIC}, *(None for _ in state))
    return torch.export.export(module, (example, *state), dynamic_shapes=shapes, strict=False)


def _onnx(program: torch.export.ExportedProgram, module: nn.Module) -> bytes:
    """Return the content of an ONNX file."""
    import onnx  # type: ignore[import-untyped,unused-ignore]

    table = torch.export.default_decompositions()
    table[torch.ops.aten.lgamma.default] = log_gamma
    adapting = isinstance(module, AdaptingGraph)
    written = torch.onnx.export(
        program.run_decompositions(table),
        dynamo=True,
        verbose=False,
        opset_version=OPSET,
        input_names=["inputs", *(State._fields if adapting else ())],
        output_names=["logits", *(f"next_{name}" for name in State._fields if adapting)],
    )
    assert written is not None
    proto = written.model_proto
    if isinstance(module, AdaptingGraph):
        for name, value in module.initial._asdict().items():  # a default, which callers replace from the second batch
            proto.graph.initializer.append(onnx.numpy_helper.from_array(value.numpy(), name))
    content: bytes = proto.SerializeToString()
    return content


def log_gamma(values: Tensor) -> Tensor:
    """Return log Γ of positive values by Stirling's series, since ONNX has no such operation.

    >>> values = torch.tensor([0.1, 1.0, 1e4], dtype=torch.float64)
    >>> torch.allclose(log_gamma(values), torch.lgamma(values), rtol=0, atol=1e-9)
    True
    """
    below = values  # Γ(x) = Γ(x + 8) / (x (x + 1) … (x + 7))
    for number in range(1, 8):
        below = below * (values + number)
    above = values + 8
    series = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / above.square()) / above.square()) / above.square()) / above
    return (above - 0.5) * above.log() - above + 0.5 * math.log(2 * math.pi) + series - below.log()


@contextmanager
def _quiet() -> Iterator[None]:
    """Leave out what torch prints and warns of while it exports; what fails is raised."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
