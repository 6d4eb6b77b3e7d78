"""Arrays in JSON, read row by row: no single call is long, so that other threads have their turn in between."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.serve.limits import RefusedError

DEEPEST = 8  # axes
LONGEST_ROW = 4096  # numbers, unless the network takes longer ones
NUMBER_CHARACTERS = 64  # of one number with the spaces around it
SPARE = 1024  # arrays, numbers and characters beside the inputs
AT_ONCE = 2048  # numbers


def json_array(body: bytes, shape: tuple[int, ...], samples: int) -> NDArray[Any]:
    """Return the array that a body is, or holds as `inputs`; refuse more than `samples` of a shape before it is read.

    >>> json_array(b'{"inputs": [[1, 2.5], [3, 4]]}', (2,), 8).tolist()
    [[1.0, 2.5], [3.0, 4.0]]
    """
    said, rows = json_outline(body, shape, samples)
    values = said.get("inputs") if isinstance(said, dict) else said
    if not isinstance(values, list):
        raise RefusedError(422, 'send an array, or {"inputs": [...]}')
    return rows.array(values)


class JsonRows:
    """Rows of numbers that were taken out of a JSON text; each is replaced by its number, in brackets."""

    def __init__(self) -> None:
        self._blocks: list[NDArray[Any]] = []  # neighbouring rows
        self._first = [0]  # row of each block, and of the next one

    def take(self, neighbours: re.Match[str]) -> str:
        """Keep the rows of a match, and return what stands for them."""
        self._blocks.append(_rows(neighbours[0]))
        self._first.append(self._first[-1] + len(self._blocks[-1]))
        return ",".join(f"[{number}]" for number in range(self._first[-2], self._first[-1]))

    def array(self, values: Any) -> NDArray[Any]:
        """Return the array whose rows are numbered by nested lists: they are neighbours in the text."""
        numbers = np.asarray(values)  # (…, 1)
        if numbers.dtype.kind != "i" or numbers.ndim < 1 or numbers.shape[-1] != 1 or numbers.ndim > DEEPEST:
            raise _irregular()
        start, end = (int(np.searchsorted(self._first, row, "right")) for row in (numbers.min(), numbers.max()))
        rows: NDArray[Any] = np.concatenate(self._blocks[start - 1 : end])
        return np.asarray(rows[numbers[..., 0] - self._first[start - 1]])


def json_outline(
    body: bytes, shape: tuple[int, ...], samples: int, *, row_characters: int | None = None
) -> tuple[Any, JsonRows]:
    """Return a JSON text with a number in place of each row of numbers, and the rows."""
    codes, each = np.frombuffer(body, np.uint8), math.prod(shape)
    arrays = sum(math.prod(shape[:axis]) for axis in range(len(shape)))  # of one sample
    most = {",": samples * each + SPARE, "[": samples * arrays + SPARE}
    if any(np.count_nonzero(codes == ord(sign)) > count for sign, count in most.items()):
        raise RefusedError(413, f"the array is larger than {samples} samples of {each} numbers; send fewer")
    longest = row_characters or max(LONGEST_ROW, *shape) * NUMBER_CHARACTERS
    row = rf'\[[^\[\]{{}}"]{{0,{longest}}}\]'  # an array that holds no array
    together = max(1, AT_ONCE // max(1, shape[-1])) - 1
    rows = JsonRows()
    outline = re.sub(rf"{row}(?:\s{{0,99}},\s{{0,99}}{row}){{0,{together}}}", rows.take, body.decode())
    if len(outline) > most["["] * NUMBER_CHARACTERS:
        raise RefusedError(413, f"a row of the array, or what is beside it, has over {longest} characters")
    return json.loads(outline), rows


def _rows(text: str) -> NDArray[Any]:
    """Return neighbouring rows; a long one is read in parts."""
    if "true" in text or "false" in text:  # beside numbers they would be 1 and 0
        raise _irregular()
    if len(text) > AT_ONCE * NUMBER_CHARACTERS:
        numbers = text[1:-1].split(",")
        parts = [",".join(numbers[start : start + AT_ONCE]) for start in range(0, len(numbers), AT_ONCE)]
        rows = np.concatenate([np.asarray(json.loads(f"[{part}]")) for part in parts])[None]
    else:
        rows = np.asarray(json.loads(f"[{text}]"))
    if rows.dtype.kind not in "fiu" or rows.ndim != 2:
        raise _irregular()
    return rows


def _irregular() -> RefusedError:
    return RefusedError(422, "the array must hold numbers, and rows of equal length")
