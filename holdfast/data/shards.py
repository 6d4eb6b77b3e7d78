"""WebDataset shards, written by `export_shards` or by the official CCC generator, as samples and as a data set."""

from __future__ import annotations

import tarfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from holdfast.data.base import DATASETS
from holdfast.data.on_disk import digest_of
from holdfast.data.shard_index import ShardIndex, load_index
from holdfast.decode.image_files import decode_image
from holdfast.records import InputSpec

OnError = Literal["raise", "skip"]
T = TypeVar("T")


class ShardError(ValueError):
    """A shard that is missing, truncated, damaged or of another kind; the message names the file."""


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

    `on_error="skip"` leaves out shards that are truncated, damaged or of another kind, and images that cannot be
    decoded, with a warning that names each of them; "raise" stops at the first.
    """
    for path, entries in _opened(paths, on_error, _index):
        with path.open("rb") as file:
            for entry in entries:
                try:
                    image = _decoded(file, path, *entry.extent)
                except ShardError as error:
                    _raise_or_warn(error, on_error)
                    continue
                yield StoredSample(image, entry.label, entry.info)


@DATASETS.register("ccc_shards")
class Shards:
    """The samples of WebDataset shards by index, in their stored order; images are decoded when they are read.

    `paths` are shards or folders of them. A shard is indexed when it is first opened, and the index is kept beside it.
    The digest covers every byte of the shards and reads them once.
    """

    citation = "Press et al., NeurIPS 2023"

    def __init__(
        self,
        *,
        paths: str | Path | Sequence[str | Path],
        class_names: Sequence[str] = (),
        on_error: OnError = "raise",
    ) -> None:
        shards = list(_opened(paths, on_error, _brief))
        if not shards:
            raise ShardError(f"no samples in {paths}; name shards that export_shards or the CCC generator has written")
        self.name = "ccc_shards"
        self.paths = [path for path, _ in shards]
        indices = [index for _, index in shards]
        self.labels = np.concatenate([index.labels for index in indices]).astype(np.int64)
        self.class_names: Sequence[str] = tuple(class_names) or tuple(map(str, range(int(self.labels.max()) + 1)))
        # The corruptions of each sample, as its shard names them: distinct combinations, and an index into these.
        self.combinations = tuple(dict.fromkeys(stated for index in indices for stated in index.combinations))
        number_of = {stated: number for number, stated in enumerate(self.combinations)}
        self.combination_of = np.concatenate(
            [
                np.array([number_of[each] for each in index.combinations], np.int32)[index.combination_of]
                for index in indices
            ]
        )
        # What the calibrated network is expected to get right, where `export_shards` has written it.
        known = all(len(index.expected) == len(index.labels) for index in indices)
        self.expected = np.concatenate([index.expected for index in indices]) if known else None
        # Where each image is: shard, offset and size in bytes.
        self._shards = np.repeat(np.arange(len(shards), dtype=np.int32), [len(index.labels) for index in indices])
        self._offsets = np.concatenate([index.offsets for index in indices])
        self._sizes = np.concatenate([index.sizes for index in indices])
        height, width, _ = self.inputs(np.zeros(1, np.int64)).shape[1:]
        self.input_spec = InputSpec("image", (3, height, width))

    @cached_property
    def digest(self) -> str:
        """Hex digest of all bytes of the shards."""
        return digest_of(block for path in self.paths for block in _blocks(path))

    def inputs(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return the images at these indices."""
        if not len(indices):
            return np.empty((0, *self.input_spec.shape[1:], 3), np.uint8)
        images: list[Any] = [None] * len(indices)
        for shard in np.unique(self._shards[indices]):
            with self.paths[shard].open("rb") as file:
                for row in np.flatnonzero(self._shards[indices] == shard):
                    offset, size = int(self._offsets[indices[row]]), int(self._sizes[indices[row]])
                    images[row] = _decoded(file, self.paths[shard], offset, size)
        return np.stack(images)


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from iter(partial(file.read, 1 << 20), b"")


@dataclass(frozen=True)
class _Entry:
    extent: tuple[int, int]  # of the image: offset and size, in bytes
    label: int
    info: dict[str, str]


def _brief(path: Path) -> ShardIndex:
    """Return the index beside a shard, or make it."""
    index = load_index(path) if path.is_file() else None
    if index is None:
        entries = _index(path)
        stated = [tuple(entry.info[key] for key in ("n1", "n2") if key in entry.info) for entry in entries]
        index = ShardIndex.of([entry.extent for entry in entries], [entry.label for entry in entries], stated)
        index.save(path)
    return index


def _opened(
    paths: str | Path | Iterable[str | Path], on_error: OnError, read: Callable[[Path], T]
) -> Iterator[tuple[Path, T]]:
    if on_error not in get_args(OnError):
        raise ValueError(f"on_error must be one of {', '.join(get_args(OnError))}, got {on_error!r}")
    for path in _files(paths):
        try:
            content = read(path)
        except ShardError as error:
            _raise_or_warn(error, on_error)
            continue
        yield path, content


def _files(paths: str | Path | Iterable[str | Path]) -> Iterator[Path]:
    for path in map(Path, [paths] if isinstance(paths, str | Path) else paths):
        yield from sorted(path.glob("*.tar")) if path.is_dir() else [path]


def _raise_or_warn(error: ShardError, on_error: OnError) -> None:
    if on_error == "raise":
        raise error
    warnings.warn(f"left out: {error}", stacklevel=3)


def _index(path: Path) -> list[_Entry]:
    """Return extent, label and info of every sample of a shard, without decoding its images."""
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
                raise EOFError("it is truncated")
            if not samples:
                raise EOFError("it is empty")
            return [
                _Entry(sample["input.jpg"], int(sample["output.cls"]), parse_info(sample.get("info", "")))
                for sample in samples.values()
            ]
    except FileNotFoundError as error:
        raise ShardError(f"there is no shard {path}; pass .tar files or folders of them") from error
    except KeyError as error:
        raise ShardError(
            f"{path} is not a CCC shard: a sample has no {error}; pass shards with input.jpg and output.cls"
        ) from error
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        raise ShardError(
            f"{path} is truncated, damaged or not a shard ({error}); export or download it again"
        ) from error


def _decoded(file: BinaryIO, path: Path, offset: int, size: int) -> NDArray[np.uint8]:
    file.seek(offset)
    try:
        return np.asarray(decode_image(BytesIO(file.read(size)), f"the image at byte {offset}"))
    except ValueError as error:
        problem = f"at byte {offset} ({error.__cause__})"
        raise ShardError(
            f"{path} has an image that cannot be decoded, {problem}; export or download it again"
        ) from error
