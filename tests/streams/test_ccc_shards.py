"""Shards: official keys and sizes, equal for any number of workers, and errors that name damaged files."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from holdfast.data import DATASETS, InMemoryImages
from holdfast.data.shard_index import END, ShardIndex, load_index
from holdfast.data.shards import ShardError
from holdfast.streams import (
    STREAMS,
    Calibration,
    Shards,
    Stream,
    Transition,
    as_stored,
    ccc,
    continual,
    export_shards,
    read_shards,
)
from holdfast.streams.shards.export import shard_spans

POINTS = ((2, 0), (2, 1), (1, 1), (1, 2), (0, 2))
SHARDS = ["serial_00000.tar", "serial_00001.tar", "serial_00002.tar"]
INDICES = [name.replace(".tar", ".index.npz") for name in SHARDS]


@pytest.fixture(scope="module")
def stream(few: InMemoryImages) -> Stream:
    path = Transition("gaussian_noise", "jpeg_compression", POINTS, (40.0,) * 5)
    return ccc(few, calibration=Calibration((path,), 40.0, storage_jpeg_quality=85), images_per_step=10)


@pytest.fixture(scope="module")
def shards(stream: Stream, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("shards")
    # 15 images are not a whole number of steps: two steps of 10 make a shard.
    assert [path.name for path in export_shards(stream, out, shard_images=15)] == SHARDS
    return out


@pytest.mark.parametrize(
    ("images_per_step", "length", "count", "size"),
    [(1000, 7_500_000, 300, 25_000), (2000, 7_514_000, 289, 26_000), (5000, 7_500_000, 300, 25_000)],
)
def test_the_official_arithmetic(images_per_step: int, length: int, count: int, size: int) -> None:
    spans = shard_spans(length, 25_000, images_per_step)
    assert len(spans) == count
    assert {stop - start for start, stop in spans} == {size}
    assert [start for start, _ in spans] == [size * number for number in range(count)]


def test_shards_have_the_official_keys(shards: Path, stream: Stream) -> None:
    with tarfile.open(shards / SHARDS[1]) as archive:
        names = archive.getnames()
        assert names[:3] == ["sample_0.info", "sample_0.input.jpg", "sample_0.output.cls"]
        assert len(names) == 3 * 20
        files = {name: archive.extractfile(name).read() for name in names[:3]}  # type: ignore[union-attr]
    sample = int(stream.plan.picks(20, 21).samples[0])
    label = stream.data.labels[sample]
    expected = f"++dir++{label}++name++{sample}++n1++gaussian_noise++s1++0.25++n2++jpeg++s2++0.25"
    assert files["sample_0.info"].decode() == expected
    assert files["sample_0.output.cls"] == str(label).encode()
    assert files["sample_0.input.jpg"].startswith(b"\xff\xd8")


def test_reading_gives_back_the_stream(shards: Path, stream: Stream) -> None:
    samples = list(read_shards(shards))
    assert len(samples) == stream.length == 50
    pixels = np.stack([sample.image for sample in samples]).transpose(0, 3, 1, 2)
    assert np.array_equal(pixels.astype(np.float32) / np.float32(255), stream.first(50).numpy())
    picks = stream.plan.picks(0, 50)
    assert [sample.label for sample in samples] == stream.data.labels[picks.samples].tolist()
    severities = [[float(sample.info["s1"]), float(sample.info["s2"])] for sample in samples]
    assert severities == picks.severities.tolist()


def test_shards_are_data_and_a_stream_to_evaluate_on(shards: Path, stream: Stream) -> None:
    data = DATASETS["ccc_shards"](paths=str(shards))
    stored = STREAMS["as_stored"](data, seed=3)
    assert stored.length == 50
    assert stored.domains == ("gaussian_noise+jpeg_compression",)
    assert torch.equal(stored.first(50), stream.first(50))
    late = next(stored.starting_at(33, batch_size=9))
    assert torch.equal(late.inputs, stream.render(33, 42).inputs)
    assert late.labels.tolist() == stream.render(33, 42).labels.tolist()
    some = np.array([45, 3, 21])
    assert np.array_equal(data.inputs(some), np.stack([data.inputs(some[k : k + 1])[0] for k in range(3)]))
    part = Shards(paths=[shards / SHARDS[0]])
    assert part.digest != data.digest == Shards(paths=[shards / name for name in SHARDS]).digest
    with pytest.raises(ValueError, match="ccc_shards"):
        as_stored(stream.data)  # type: ignore[arg-type]


@pytest.mark.slow
def test_workers_and_interruptions_leave_the_same_bytes(shards: Path, stream: Stream, tmp_path: Path) -> None:
    expected = {name: (shards / name).read_bytes() for name in SHARDS}
    (tmp_path / f".{SHARDS[0]}.partial").write_bytes(b"killed in the middle")
    export_shards(stream, tmp_path, shard_images=15, workers=2)
    assert {name: (tmp_path / name).read_bytes() for name in SHARDS} == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["lock", *SHARDS, *INDICES, "stream.json"])
    (tmp_path / SHARDS[1]).unlink()
    before = (tmp_path / SHARDS[0]).stat().st_mtime_ns
    export_shards(stream, tmp_path, shard_images=15)
    assert {name: (tmp_path / name).read_bytes() for name in SHARDS} == expected
    assert (tmp_path / SHARDS[0]).stat().st_mtime_ns == before


def test_a_shard_that_fails_is_not_there(few: InMemoryImages, tmp_path: Path) -> None:
    class Broken(InMemoryImages):
        def inputs(self, indices: Any) -> Any:
            raise OSError("file 7 is damaged")

    broken = continual(Broken(few.images, few.labels), corruptions=["clean"])
    with pytest.raises(OSError, match="file 7"):
        export_shards(broken, tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".json"] == ["lock"]


def test_another_stream_does_not_mix_in(shards: Path, few: InMemoryImages, tmp_path: Path) -> None:
    other = continual(few, corruptions=["clean"])
    with pytest.raises(ValueError, match="another stream or of another size"):
        export_shards(other, shards)
    with pytest.raises(ValueError, match="endless"):
        export_shards(continual(few, corruptions=["clean"], cycles=None), tmp_path)
    export_shards(other, tmp_path, shard_images=30)  # any stream can be written
    assert as_stored(Shards(paths=tmp_path)).domains == ("clean",)
    assert [len(Shards(paths=tmp_path / name).labels) for name in SHARDS[:2]] == [30, 20]


def test_shards_of_several_streams_keep_the_domain_of_each_sample(
    shards: Path, few: InMemoryImages, tmp_path: Path
) -> None:
    several = continual(few, corruptions=["clean", "fog"], samples_per_domain=5)
    export_shards(several, tmp_path, shard_images=10)
    data = Shards(paths=[shards / SHARDS[2], tmp_path / SHARDS[0], shards / SHARDS[0]])
    batch = as_stored(data).render(0, 40)
    walked = ["gaussian_noise+jpeg_compression"]
    assert list(batch.domains) == walked * 10 + list(several.render(0, 10).domains) + walked * 20
    labels = [Shards(paths=part).labels for part in (shards / SHARDS[2], tmp_path / SHARDS[0], shards / SHARDS[0])]
    assert batch.labels.tolist() == np.concatenate(labels).tolist()


def test_an_index_saves_reading_the_shards_and_keeps_the_expected_accuracy(
    shards: Path, stream: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged(shards, tmp_path)  # a copy of the shards alone
    made = Shards(paths=tmp_path)
    assert made.expected is None
    assert as_stored(made).render(0, 9).expected is None
    for name in INDICES:  # what is made when a shard is opened is what the export has written, but for the accuracy
        with np.load(shards / name) as written, np.load(tmp_path / name) as again:
            assert all(np.array_equal(written[key], again[key]) for key in written if key != "expected")
    opened = tarfile.open
    monkeypatch.setattr(tarfile, "open", lambda *_, **__: pytest.fail("an indexed shard was read"))
    kept, exported = Shards(paths=tmp_path), Shards(paths=shards)
    monkeypatch.setattr(tarfile, "open", opened)
    assert np.array_equal(kept.inputs(np.arange(50)), made.inputs(np.arange(50)))
    assert as_stored(exported).render(17, 40).expected == pytest.approx(stream.render(17, 40).expected)
    (tmp_path / SHARDS[2]).write_bytes((shards / SHARDS[0]).read_bytes())  # the index is of another shard now
    changed = Shards(paths=tmp_path)
    assert changed.labels[40:].tolist() == made.labels[:20].tolist()
    (tmp_path / INDICES[0]).write_bytes(b"damaged")
    assert Shards(paths=tmp_path).labels.tolist() == changed.labels.tolist()


def damaged(shards: Path, folder: Path) -> Path:
    """Copy three shards and return the second, to be damaged."""
    for name in SHARDS:
        (folder / name).write_bytes((shards / name).read_bytes())
    return folder / SHARDS[1]


@pytest.mark.parametrize("kind", ["cut in an image", "cut between members", "empty", "text", "other tar", "no label"])
def test_damaged_and_foreign_shards_are_named_and_skipped_on_request(shards: Path, tmp_path: Path, kind: str) -> None:
    path = damaged(shards, tmp_path)
    whole = path.read_bytes()
    if kind == "cut in an image":
        path.write_bytes(whole[:5000])
    elif kind == "cut between members":
        with tarfile.open(path) as archive:
            path.write_bytes(whole[: archive.getmembers()[30].offset])
    elif kind in ("empty", "text"):
        path.write_bytes(b"" if kind == "empty" else b"not found\n" * 500)
    else:
        note = tmp_path / ("readme.txt" if kind == "other tar" else "sample_0.input.jpg")
        note.write_text("hello")
        with tarfile.open(path, "w") as archive:
            archive.add(note, note.name)
    with pytest.raises(ShardError, match=r"serial_00001\.tar"):
        list(read_shards(tmp_path))
    with pytest.raises(ShardError, match=r"serial_00001\.tar"):
        Shards(paths=tmp_path)
    with pytest.warns(UserWarning, match=r"left out: .*serial_00001\.tar"):
        samples = list(read_shards(tmp_path, on_error="skip"))
    assert len(samples) == 30
    with pytest.warns(UserWarning, match=r"left out: .*serial_00001\.tar"):
        assert len(Shards(paths=tmp_path, on_error="skip").labels) == 30


def test_a_damaged_image_is_one_sample_less(shards: Path, tmp_path: Path) -> None:
    path = damaged(shards, tmp_path)
    with tarfile.open(path) as archive:
        member = archive.getmember("sample_4.input.jpg")
    content = bytearray(path.read_bytes())
    content[member.offset_data : member.offset_data + member.size] = bytes(member.size)
    path.write_bytes(content)
    with pytest.raises(ShardError, match=r"serial_00001\.tar has an image that cannot be decoded"):
        list(read_shards(tmp_path))
    with pytest.warns(UserWarning, match="cannot be decoded"):
        assert len(list(read_shards(tmp_path, on_error="skip"))) == 49


def test_mistakes_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ShardError, match="there is no shard"):
        list(read_shards(tmp_path / "absent.tar"))
    with pytest.raises(ShardError, match="no samples"):
        Shards(paths=tmp_path)
    with pytest.raises(ValueError, match="on_error must be one of raise, skip, got"):
        list(read_shards(tmp_path, on_error="ignore"))  # type: ignore[arg-type]


def test_an_index_is_of_no_shard_that_has_changed_at_either_end(tmp_path: Path) -> None:
    shard, content = tmp_path / SHARDS[0], bytearray(3 * END)
    shard.write_bytes(content)
    ShardIndex.of([(512, 100)], [3], [("fog",)]).save(shard)
    assert load_index(shard) is not None
    for offset in (0, -1):
        changed = content.copy()
        changed[offset] = 1
        shard.write_bytes(changed)
        assert load_index(shard) is None
