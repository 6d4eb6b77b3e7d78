"""Decode the body of a request to inputs of the network: JSON, NPY, PNG, JPEG, WAV, FLAC, and several in one form."""

from __future__ import annotations

import io
import math
import re
import threading
import warnings
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from holdfast.audio.decoding import open_audio
from holdfast.audio.waveforms import fit_length, resample
from holdfast.decode.image_files import decode_image
from holdfast.models.input_checks import has_scale
from holdfast.models.preprocessing import Preprocessing
from holdfast.records import InputSpec
from holdfast.serve.json_arrays import json_array
from holdfast.serve.limits import Limits, RefusedError

IMAGES = ("image/png", "image/jpeg")
AUDIO = ("audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave", "audio/flac", "audio/x-flac")
ARRAYS = ("application/x-npy", "application/npy", "application/octet-stream")
KNOWN = "application/json, application/x-npy, image/png, image/jpeg, audio/wav, audio/flac or multipart/form-data"

NPY_LENGTHS = {(1, 0): 2, (2, 0): 4}  # bytes of the length of a header, by version
LONGEST_HEADER = 4096
ONE_HEADER = threading.Lock()  # Python 3.11 cannot parse literals in several threads at once (SystemError)


class Decoder:
    """Turns bodies into batches that a network takes, or refuses them; nothing is ever unpickled.

    >>> decoder = Decoder(InputSpec("other", (2,)), Limits())
    >>> decoder.decode(b'{"inputs": [[1, 2], [3, 4]]}', "application/json").shape
    torch.Size([2, 2])
    """

    def __init__(
        self,
        spec: InputSpec,
        limits: Limits,
        *,
        preprocessing: Preprocessing | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.spec, self.limits, self.preprocessing, self.dtype = spec, limits, preprocessing, dtype

    def decode(self, body: bytes, content_type: str) -> Tensor:
        """Return the batch in a body, (samples, …), in the type of the network."""
        kind, rest = _kind(content_type)
        try:
            if kind == "multipart/form-data":
                spent = _Spent(self.limits.decoded)
                parts = _parts(body, rest, self.limits.batch)
                return self._checked(torch.cat([self._one(content, part_kind, spent) for part_kind, content in parts]))
            return self._checked(self._one(body, kind, _Spent(1.0)))
        except RefusedError:
            raise
        except ImportError as error:
            raise RefusedError(415, str(error)) from error
        except Exception as error:  # readers raise anything, depending on where a body is damaged
            raise RefusedError(422, f"the body is not readable as {kind or 'anything known'}") from error

    def tensor(self, values: NDArray[Any]) -> Tensor:
        """Return an array that was read elsewhere as a batch that the network takes."""
        return self._checked(self._array(values))

    def _one(self, body: bytes, kind: str, spent: _Spent) -> Tensor:
        if kind in ("application/json", ""):
            return self._array(self._json_numbers(json_array(body, self.spec.shape, self.limits.batch)))
        if kind in ARRAYS:
            return self._array(_npy_array(body))
        if kind in IMAGES:
            return self._image(body, spent)
        if kind in AUDIO:
            return self._audio(body, spent)
        raise RefusedError(415, f"this content type is not known; send {KNOWN}")

    def _json_numbers(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return numbers as the network takes them: JSON writes 1.0 as 1, so that a black image is all integers."""
        floating = self.dtype.is_floating_point and values.dtype.kind in "iu"
        return values.astype(np.float64) if floating and np.abs(values).max(initial=0) <= 1 else values

    def _array(self, values: NDArray[Any]) -> Tensor:
        if values.dtype.kind not in "fiu":
            raise RefusedError(422, "the array must hold numbers")
        scaled = has_scale(self.spec) or values.dtype.itemsize == 1
        if values.dtype.kind != "f" and self.dtype.is_floating_point and scaled:
            example = {"image": ", e.g. divided by 255", "audio": ", e.g. divided by 32768"}.get(self.spec.kind, "")
            raise RefusedError(
                422, f"the array holds {values.dtype.name}; send floating-point values scaled as in training{example}"
            )
        if not self.dtype.is_floating_point:
            limits = torch.iinfo(self.dtype)
            if not np.all((values >= limits.min) & (values <= limits.max) & (values == np.trunc(values))):
                raise RefusedError(422, f"the network takes integers from {limits.min} to {limits.max}")
        values = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("="), copy=False))
        if values.dtype in (np.uint16, np.uint32, np.uint64, np.longdouble):
            values = values.astype(np.float64 if values.dtype == np.longdouble else np.int64)
        inputs = torch.from_numpy(
            values if values.flags.writeable else values.copy()
        )  # a view of the body is read-only
        if inputs.dim() == len(self.spec.shape):
            inputs = inputs[None]
        return inputs.to(self.dtype)

    def _image(self, body: bytes, spent: _Spent) -> Tensor:
        if self.spec.kind != "image":
            raise RefusedError(422, f"the network takes {self.spec.kind} inputs, not images")
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            try:
                with Image.open(io.BytesIO(body), formats=("PNG", "JPEG")) as header:
                    width, height = header.size
                spent.add(width * height / self.limits.pixels, f"the image has over {self.limits.pixels} pixels")
                picture = decode_image(io.BytesIO(body), "the image")
            except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
                raise RefusedError(413, f"the image has over {self.limits.pixels} pixels") from error
            except (OSError, SyntaxError) as error:
                raise RefusedError(422, "the image is not readable as PNG or JPEG") from error
        channels, *size = self.spec.shape
        if self.preprocessing is not None and (self.preprocessing.crop or self.preprocessing.resize):
            return self._scaled(self.preprocessing.image(picture))
        if [picture.height, picture.width] != size:
            raise RefusedError(422, f"the image is {picture.width}×{picture.height}, and the network takes "
                                    f"{size[1]}×{size[0]}")  # fmt: skip
        values = np.array(picture.convert("L"))[:, :, None] if channels == 1 else np.array(picture)
        return self._scaled(torch.from_numpy(values).permute(2, 0, 1).to(self.dtype) / 255)

    def _scaled(self, image: Tensor) -> Tensor:
        """Return an image in [0, 1] as a batch that the network takes: in 0..255 if it takes integers."""
        return (image if self.dtype.is_floating_point else (255 * image).round())[None].to(self.dtype)

    def _audio(self, body: bytes, spent: _Spent) -> Tensor:
        if self.spec.kind != "audio":
            raise RefusedError(422, f"the network takes {self.spec.kind} inputs, not audio")
        content = open_audio(io.BytesIO(body), "the audio")
        if not 1000 <= content.sample_rate <= 192_000:
            raise RefusedError(422, "the sample rate of the audio must be between 1 and 192 kHz")
        length = content.samples / content.sample_rate / self.limits.audio_seconds
        spent.add(length, f"the audio is longer than {self.limits.audio_seconds:g} s")
        every = content.sample_rate  # by the second: a file may have many channels
        parts = [(start, min(start + every, content.samples)) for start in range(0, content.samples, every)]
        waveform = np.concatenate([content.read(*part).mean(axis=1, dtype=np.float32) for part in parts])
        rate = (self.preprocessing and self.preprocessing.sample_rate) or self.spec.sample_rate or content.sample_rate
        fitted = fit_length(resample(waveform, content.sample_rate, rate), self.spec.shape[-1])
        return torch.from_numpy(fitted.reshape(1, *self.spec.shape)).to(self.dtype)

    def _checked(self, inputs: Tensor) -> Tensor:
        shape = tuple(inputs.shape[1:])
        if inputs.dim() != len(self.spec.shape) + 1 or shape != self.spec.shape:
            expected = ", ".join(map(str, self.spec.shape))
            raise RefusedError(422, f"the inputs have shape {list(inputs.shape)}; send [samples, {expected}]")
        if not 1 <= len(inputs) <= self.limits.batch:
            raise RefusedError(413 if len(inputs) else 422, f"send 1 to {self.limits.batch} samples in one request")
        if inputs.is_floating_point() and not torch.isfinite(inputs).all():
            raise RefusedError(422, "the inputs hold values that are not finite")
        return inputs


def is_array(content_type: str) -> bool:
    """Return whether a body is an NPY file: it is copied, not decoded.

    >>> is_array("application/x-npy"), is_array("image/png")
    (True, False)
    """
    return _kind(content_type)[0] in ARRAYS


def _kind(content_type: str) -> tuple[str, str]:
    """Return the type in a header, and its parameters."""
    kind, _, rest = content_type.partition(";")
    return kind.strip().lower(), rest


class _Spent:
    """Counts what decoding costs, in the largest images or waveforms that are allowed."""

    def __init__(self, most: float) -> None:
        self._left = most

    def add(self, cost: float, too_large: str) -> None:
        """Count one image or waveform, before it is decoded."""
        self._left -= cost
        if cost > 1:
            raise RefusedError(413, too_large)
        if self._left < 0:
            raise RefusedError(413, "the parts of the form are too large together; send fewer in one request")


def _npy_array(body: bytes) -> NDArray[Any]:
    version = np.lib.format.read_magic(io.BytesIO(body[:8]))
    if version not in NPY_LENGTHS:
        raise RefusedError(422, "the NPY file has an unknown version")
    start = 8 + NPY_LENGTHS[version]
    start += int.from_bytes(body[8:start], "little")
    if start > LONGEST_HEADER:
        raise RefusedError(422, f"the header of the NPY file has over {LONGEST_HEADER} bytes")
    shape, fortran, dtype = _npy_header(body[:start])
    if dtype.hasobject or dtype.kind not in "fiu":
        raise RefusedError(422, "the NPY file must hold numbers")
    # The size is that of the body: a header cannot make us allocate more.
    if any(side < 0 for side in shape) or math.prod(shape) * dtype.itemsize != len(body) - start:
        raise RefusedError(422, "the NPY file is truncated or too long for its shape")
    values: NDArray[Any] = np.frombuffer(body, dtype, offset=start)
    return np.array(values.reshape(shape, order="F" if fortran else "C"))


@lru_cache(maxsize=64)  # a client sends the same one each time
def _npy_header(head: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return the shape, whether it is in Fortran order, and the type that the head of an NPY file says."""
    file = io.BytesIO(head)
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    with ONE_HEADER:
        return read(file, max_header_size=LONGEST_HEADER)


def _parts(body: bytes, parameters: str, most: int) -> list[tuple[str, bytes]]:
    """Return the content type and content of each part of a form."""
    boundary = re.search(r'boundary="?([^";,]{1,70})"?', parameters)
    if boundary is None:
        raise RefusedError(422, "the form has no boundary")
    pieces = (b"\r\n" + body).split(b"\r\n--" + boundary[1].encode())
    if len(pieces) < 3 or not pieces[-1].startswith(b"--"):
        raise RefusedError(422, "the form is truncated or empty")
    if len(pieces) - 2 > most:
        raise RefusedError(413, f"send 1 to {most} samples in one request")
    parts = []
    for piece in pieces[1:-1]:
        headers, blank, content = piece.partition(b"\r\n\r\n")
        kind = re.search(rb"(?i)\r\ncontent-type:\s*([\w/+.-]+)", headers)
        if not blank or kind is None:
            raise RefusedError(422, "each part of the form needs a content type")
        parts.append((kind[1].decode().lower(), content))
    return parts
