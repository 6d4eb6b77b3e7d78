"""Shards that were written before, here or by the official CCC generator: samples one by one, by index, or a stream."""

from __future__ import annotations

import hashlib
import tarfile
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from holdfast.corruptions import CORRUPTIONS
from holdfast.data import DATASETS
from holdfast.records import Domain, InputSpec, Picks
from holdfast.streams.domains import CLEAN
from holdfast.streams.plan import Plan
from holdfast.streams.stream import STREAMS, Stream

__all__ = ["AsStored", "ShardError", "Shards", "StoredSample", "as_stored", "parse_info", "read_shards"]

OnError = Literal["raise", "skip"]


class ShardError(ValueError):
    """A shard that is cut off, damaged or none at all; the message names it."""


class StoredSample(NamedTuple):
    """One sample of a shard."""

    image: NDArray[np.uint8]  # (height, width, 3)
    label: int
    info: dict[str, str]  # dir, name, n1, s1, n2, s2


def parse_info(text: str) -> dict[str, str]:
    """Return the official info text as a mapping.

    >>> parse_info("++dir++n01440764++name++a.JPEG++n1++snow++s1++0.25")["s1"]
    '0.25'
    """
    words = text.split("++")[1:]
    return dict(zip(words[::2], words[1::2], strict=False))


def read_shards(paths: str | Path | Iterable[str | Path], *, on_error: OnError = "raise") -> Iterator[StoredSample]:
    """Yield the samples of shards, or of all shards in folders, in order.

    `on_error="skip"` leaves out shards that are cut off, damaged or foreign, and pictures that cannot be decoded, with
    a warning that names each of them; "raise" stops there.
    """
    for path, entries in _indexed(paths, on_error):
        with path.open("rb") as file:
            for entry in entries:
                try:
                    image = _decoded(file, path, *entry.place)
                except ShardError as error:
                    _raise_or_warn(error, on_error)
                    continue
                yield StoredSample(image, entry.label, entry.info)


@DATASETS.register("ccc_shards")
class Shards:
    """Samples of WebDataset shards by index, in their order; the pictures stay on disk until they are asked for.

    `paths` are shards or folders of them. The digest covers every byte of them, and reads them once.
    """

    citation = "Press et al., NeurIPS 2023"

    def __init__(
        self,
        *,
        paths: str | Path | Sequence[str | Path],
        class_names: Sequence[str] = (),
        on_error: OnError = "raise",
    ) -> None:
        shards = list(_indexed(paths, on_error))
        entries = [entry for _, found in shards for entry in found]
        if not entries:
            raise ShardError(f"no samples in {paths}; name shards that export_shards or the CCC generator has written")
        self.name = "ccc_shards"
        self.paths = [path for path, _ in shards]
        self.labels = np.array([entry.label for entry in entries], np.int64)
        self.class_names: Sequence[str] = tuple(class_names) or tuple(map(str, range(int(self.labels.max()) + 1)))
        names = [_domain_name(entry.info) for entry in entries]
        self.domain_names = tuple(dict.fromkeys(names))
        self.domains = np.array([self.domain_names.index(name) for name in names], np.int64)
        # Where each picture is: shard, offset and size in bytes.
        self._shards = np.repeat(np.arange(len(shards)), [len(found) for _, found in shards])
        self._places = np.array([entry.place for entry in entries], np.int64)
        height, width, _ = self.inputs(np.zeros(1, np.int64)).shape[1:]
        self.input_spec = InputSpec("image", (3, height, width))

    @cached_property
    def digest(self) -> str:
        """Hex digest of the shards, byte by byte."""
        content = hashlib.blake2b(digest_size=16)
        for path in self.paths:
            with path.open("rb") as file:
                while block := file.read(1 << 20):
                    content.update(block)
        return content.hexdigest()

    def inputs(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return the pictures at these indices."""
        images: list[Any] = [None] * len(indices)
        for shard in np.unique(self._shards[indices]):
            with self.paths[shard].open("rb") as file:
                for row in np.flatnonzero(self._shards[indices] == shard):
                    offset, size = self._places[indices[row]].tolist()
                    images[row] = _decoded(file, self.paths[shard], offset, size)
        return np.stack(images)


class AsStored(Plan):
    """The samples in the order in which they are stored, with nothing done to them."""

    seed = 0

    def __init__(self, data: Shards) -> None:
        self.domains = tuple(map(Domain, data.domain_names))
        self.length = len(data.labels)
        self._domain_of = data.domains

    def picks(self, start: int, stop: int) -> Picks:
        """Return the samples from `start` to `stop`, in the domains they were stored with."""
        return Picks(np.arange(start, stop), self._domain_of[start:stop], np.empty((stop - start, 0)))

    def spec(self) -> dict[str, Any]:
        """Return that nothing but the data decides."""
        return {"kind": "as stored", "version": 1}


@STREAMS.register("as_stored")
def as_stored(data: Shards, *, seed: int = 0) -> Stream:
    """Shards as they were written, in their order: published streams, without doing their work again."""
    if not isinstance(data, Shards):
        raise ValueError("only shards know an order of their own; read them as the data set ccc_shards")
    return Stream(AsStored(data), data, seed=seed)


vars(as_stored).update(citation="Press et al., NeurIPS 2023")


@dataclass(frozen=True)
class _Entry:
    place: tuple[int, int]  # of the picture: offset and size, in bytes
    label: int
    info: dict[str, str]


def _indexed(paths: str | Path | Iterable[str | Path], on_error: OnError) -> Iterator[tuple[Path, list[_Entry]]]:
    if on_error not in get_args(OnError):
        raise ValueError(f"on_error={on_error!r} is unknown; choose one of {', '.join(get_args(OnError))}")
    for path in _files(paths):
        try:
            entries = _index(path)
        except ShardError as error:
            _raise_or_warn(error, on_error)
            continue
        yield path, entries


def _files(paths: str | Path | Iterable[str | Path]) -> Iterator[Path]:
    for path in map(Path, [paths] if isinstance(paths, str | Path) else paths):
        yield from sorted(path.glob("*.tar")) if path.is_dir() else [path]


def _raise_or_warn(error: ShardError, on_error: OnError) -> None:
    if on_error == "raise":
        raise error
    warnings.warn(f"left out: {error}", stacklevel=3)


def _index(path: Path) -> list[_Entry]:
    """Return where the samples of a shard are, and all of them but their pictures."""
    samples: dict[str, dict[str, Any]] = {}
    try:
        with path.open("rb") as file:
            file.seek(-1024, 2)
            whole = not any(file.read())  # an archive ends with two empty blocks
            file.seek(0)
            with tarfile.open(fileobj=file, mode="r:") as archive:
                for member in archive:
                    key, _, name = member.name.rpartition("/")[2].partition(".")
                    sample = samples.setdefault(key, {})
                    content = archive.extractfile(member)
                    if name == "input.jpg":
                        sample[name] = (member.offset_data, member.size)
                    elif name in ("output.cls", "info") and content is not None:
                        sample[name] = content.read().decode()
            if not whole:
                raise EOFError("it is cut off")
            if not samples:
                raise KeyError("it is empty")
            return [
                _Entry(sample["input.jpg"], int(sample["output.cls"]), parse_info(sample.get("info", "")))
                for sample in samples.values()
            ]
    except FileNotFoundError as error:
        raise ShardError(f"there is no shard {path}; name .tar files or folders of them") from error
    except KeyError as error:
        raise ShardError(f"{path} is not a shard of CCC: a sample has no {error}") from error
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        raise ShardError(f"{path} is cut off, damaged or no shard ({error}); write or download it again") from error


def _decoded(file: BinaryIO, path: Path, offset: int, size: int) -> NDArray[np.uint8]:
    file.seek(offset)
    try:
        with Image.open(BytesIO(file.read(size)), formats=["JPEG"]) as picture:
            return np.asarray(picture.convert("RGB"))
    except (OSError, SyntaxError, ValueError) as error:
        raise ShardError(f"{path} has a picture that cannot be decoded, at byte {offset} ({error})") from error


def _domain_name(info: dict[str, str]) -> str:
    """Return the corruptions that the info names, in full, whatever their severities."""
    names = [info[key] for key in ("n1", "n2") if key in info]
    return "+".join(CORRUPTIONS[name].name if name in CORRUPTIONS else name for name in names) or CLEAN
