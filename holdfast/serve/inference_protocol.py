"""The Open Inference Protocol, version 2 (KServe, Triton), with binary tensors: its requests, answers and metadata."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from holdfast import __version__
from holdfast.serve.bodies import Decoder
from holdfast.serve.decision import Decision
from holdfast.serve.json_arrays import JsonRows, json_outline
from holdfast.serve.limits import RefusedError
from holdfast.serve.service import Answer

DATATYPES = {
    "BOOL": np.dtype("?"),
    **{f"UINT{bits}": np.dtype(f"<u{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"INT{bits}": np.dtype(f"<i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": np.dtype(f"<f{bits // 8}") for bits in (16, 32, 64)},
}
NAMES = {dtype: name for name, dtype in DATATYPES.items()}
ROW_CHARACTERS = 4 * 2**20  # of data in JSON; larger tensors are sent as binary ones
LONGEST_NUMBER = 19  # digits
INPUT = "inputs"
OUTPUTS = {  # name -> datatype, and axes after the samples
    "logits": ("FP32", ["classes"]),
    "classes": ("INT64", []),
    "confidences": ("FP32", []),
    "wants_label": ("BOOL", []),
    "ids": ("BYTES", []),
    "names": ("BYTES", []),
}
OF_BATCH = {"estimate": ("FP64", [4]), "events": ("BYTES", [-1])}  # of the batch before: value, low, high, gain


@dataclass(frozen=True)
class Inference:
    """A request: one tensor, the tenant that it names, and which outputs are wanted in which form."""

    values: NDArray[Any]
    tenant: str | None
    id: str | None
    outputs: tuple[str, ...] | None  # None: all
    binary: frozenset[str]  # outputs that are sent as binary tensors
    all_binary: bool = False


def read_inference(body: bytes, header_length: str | None, decoder: Decoder) -> Inference:
    """Return the request in a body whose JSON has `header_length` bytes, or refuse it."""
    length = _length(header_length, body)
    if length is None:
        raise RefusedError(400, "Inference-Header-Content-Length must be the length of the JSON part of the body")
    try:
        said, rows = json_outline(
            body[:length], decoder.spec.shape, decoder.limits.batch, row_characters=ROW_CHARACTERS
        )
        (tensor,) = said["inputs"]
        asked = said.get("parameters") or {}
        wanted = _wanted(said.get("outputs") or [], rows)
        values = _tensor(tensor, rows, body[length:])
        return Inference(
            values=values,
            tenant=_text(asked.get("tenant")),
            id=_text(said.get("id")),
            outputs=None if wanted is None else tuple(wanted),
            binary=frozenset(name for name, binary in (wanted or {}).items() if binary),
            all_binary=_flag(asked, "binary_data_output"),
        )
    except RefusedError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise RefusedError(400, f"this is no request of the protocol with one input named {INPUT!r}") from error


def _length(header: str | None, body: bytes) -> int | None:
    """Return the length of the JSON part of a body, or None if the header says something else."""
    if header is None:
        return len(body)
    known = header.isdecimal() and len(header) < LONGEST_NUMBER and int(header) <= len(body)
    return int(header) if known else None


def _wanted(outputs: Any, rows: JsonRows) -> dict[str, bool] | None:
    """Return the names of the outputs that are asked for, and whether each is to be binary; None: all are."""
    if not outputs or (isinstance(outputs[0], int) and not rows.array(outputs).size):  # a row of no numbers
        return None
    wanted = {str(one["name"]): _flag(one.get("parameters") or {}, "binary_data") for one in outputs}
    if unknown := sorted(set(wanted) - {*OUTPUTS, *OF_BATCH}):
        raise RefusedError(
            400, f"there is no output {unknown[0]!r}; the outputs are {', '.join((*OUTPUTS, *OF_BATCH))}"
        )
    return wanted


def _tensor(tensor: Mapping[str, Any], rows: JsonRows, binary: bytes) -> NDArray[Any]:
    sides = rows.array(tensor["shape"])
    if sides.size and (sides.dtype.kind != "i" or sides.min() < 0):
        raise RefusedError(400, f"the input has shape {sides.tolist()}; send its own")
    shape, name, dtype = sides.tolist(), tensor.get("name"), DATATYPES.get(tensor["datatype"])
    if name != INPUT:
        raise RefusedError(400, f"the model has no input {name!r}; its input is {INPUT!r}")
    if dtype is None or dtype.kind == "b":
        raise RefusedError(400, f"the input has datatype {tensor['datatype']!r}; send FP32, or another number")
    numbers, size = math.prod(shape), (tensor.get("parameters") or {}).get("binary_data_size")
    if size is None:
        values = rows.array(tensor["data"])
        if values.size != numbers:
            raise RefusedError(400, f"the data have {values.size} numbers, and the shape {shape} says {numbers}")
        if dtype.kind in "iu" and values.dtype.kind == "f":
            raise RefusedError(400, f"the data are no integers, and the datatype is {tensor['datatype']}")
        with np.errstate(over="ignore"):  # they are refused as not finite
            taken = values.astype(dtype)
        if dtype.kind in "iu" and not np.array_equal(taken, values):
            raise RefusedError(400, f"the data do not fit in the datatype {tensor['datatype']}")
        return np.reshape(taken, shape)
    if tensor.get("data") is not None:
        raise RefusedError(400, "the input has binary data and data in JSON; send one of them")
    if type(size) is not int or size != len(binary) or size != dtype.itemsize * numbers:
        raise RefusedError(400, f"the binary data have {len(binary)} bytes, which is not what size and shape say")
    return np.array(np.frombuffer(binary, dtype).reshape(shape))  # a copy: tensors are writable


def _flag(parameters: Mapping[str, Any], name: str) -> bool:
    flag = parameters.get(name, False)
    if not isinstance(flag, bool):
        raise RefusedError(400, f"{name} must be true or false")
    return flag


def _text(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise RefusedError(400, "id and tenant must be text")
    return value


def tenant_in(body: bytes, header_length: str | None) -> str | None:
    """Return the tenant that the parameters of a request seem to name, without reading it; the replica checks it.

    >>> tenant_in(b'{"parameters": {"tenant": "north"}, "inputs": []}', None)
    'north'
    """
    named = re.search(rb'"tenant"\s{0,9}:\s{0,9}"([^"\\]{1,64})"', body[: _length(header_length, body)])
    return None if named is None else named[1].decode("utf-8", "replace")


def inference_reply(
    model: str, asked: Inference, answer: Answer, newest: Decision | None
) -> tuple[bytes, dict[str, str]]:
    """Return the body and headers of an answer; `newest` is the last decision of the tenant before it."""
    wanted = asked.outputs
    outputs, binary = [], []
    for name, values in output_tensors(answer, newest).items():
        if wanted is not None and name not in wanted:
            continue
        datatype = {**OUTPUTS, **OF_BATCH}[name][0]
        one: dict[str, Any] = {"name": name, "datatype": datatype, "shape": list(values.shape)}
        if name in asked.binary or (asked.all_binary and wanted is None):
            binary.append(_packed(values, datatype))
            one["parameters"] = {"binary_data_size": len(binary[-1])}
        else:
            one["data"] = values.reshape(-1).tolist()
        outputs.append(one)
    said: dict[str, Any] = {"model_name": model, "model_version": "1", "outputs": outputs}
    if asked.id is not None:
        said["id"] = asked.id
    said["parameters"] = {"tenant": answer.tenant, "batch": answer.batch, "predicts": answer.predicts}
    header = json.dumps(said, allow_nan=False).encode()
    if not binary:
        return header, {"content-type": "application/json"}
    lengths = {"inference-header-content-length": str(len(header))}
    return b"".join([header, *binary]), {"content-type": "application/octet-stream", **lengths}


def output_tensors(answer: Answer, newest: Decision | None) -> dict[str, NDArray[Any]]:
    """Return the outputs of a prediction by name; `newest` is the last decision of the tenant before it."""
    outputs: dict[str, NDArray[Any]] = {
        "logits": answer.logits.float().cpu().numpy(),
        "classes": np.asarray(answer.classes, np.int64),
        "confidences": np.asarray(answer.confidences, np.float32),
        "wants_label": np.asarray(answer.wants_label, np.bool_),
        "ids": np.asarray(answer.ids, np.object_),
    }
    if answer.names is not None:
        outputs["names"] = np.asarray(answer.names, np.object_)
    if newest is not None:
        outputs["events"] = np.asarray(newest.events, np.object_)
        estimate = (newest.estimate, newest.low, newest.high, newest.gain)
        if None not in estimate:
            outputs["estimate"] = np.asarray(estimate, np.float64)
    return outputs


def _packed(values: NDArray[Any], datatype: str) -> bytes:
    if datatype != "BYTES":
        return np.ascontiguousarray(values, DATATYPES[datatype]).tobytes()
    texts = [str(value).encode() for value in values.reshape(-1).tolist()]
    return b"".join(len(text).to_bytes(4, "little") + text for text in texts)


def server_metadata() -> dict[str, Any]:
    """Return what /v2 says."""
    return {"name": "holdfast", "version": __version__, "extensions": ["binary_tensor_data"]}


def model_metadata(model: str, dtype: torch.dtype, shape: Sequence[int], classes: int) -> dict[str, Any]:
    """Return what /v2/models/{model} says.

    >>> model_metadata("net", torch.float32, (3, 32, 32), 10)["inputs"]
    [{'name': 'inputs', 'datatype': 'FP32', 'shape': [-1, 3, 32, 32]}]
    """
    known = torch.float32 if dtype is torch.bfloat16 else dtype  # NumPy has no such type
    takes = NAMES[torch.empty(0, dtype=known).numpy().dtype]
    sides = {"classes": classes}
    outputs = [
        {"name": name, "datatype": datatype, "shape": [-1, *(sides.get(axis, axis) for axis in axes)]}
        for name, (datatype, axes) in OUTPUTS.items()
    ]
    outputs += [{"name": name, "datatype": datatype, "shape": shape} for name, (datatype, shape) in OF_BATCH.items()]
    return {
        "name": model,
        "versions": ["1"],
        "platform": "pytorch_holdfast",
        "inputs": [{"name": INPUT, "datatype": takes, "shape": [-1, *shape]}],
        "outputs": outputs,
    }
