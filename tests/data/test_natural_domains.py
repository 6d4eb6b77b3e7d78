"""Data sets with natural domains: folders, lists, variants of ImageNet and WILDS; and streams of their domains."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from holdfast.data import (
    Camelyon17,
    Cifar101,
    DomainFolder,
    ImageNetA,
    ImageNetD109,
    ImageNetR,
    ImageNetSketch,
    ImageNetV2,
    IWildCam,
)
from holdfast.data.imagenet_classes import imagenet_wnids
from holdfast.streams import Stream, continual, gradual, markov, mixed_domains, unitta

COUNTS = {"photo": (4, 3), "sketch": (1, 2), "art": (2, 0)}  # of cat and dog


def write(path: Path, level: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (40, 36), (level, level, level)).save(path)


@pytest.fixture
def animals(tmp_path: Path) -> Path:
    for row, (domain, counts) in enumerate(COUNTS.items()):
        for name, count in zip(("cat", "dog"), counts, strict=True):
            for number in range(count):
                write(tmp_path / "animals" / domain / name / f"{number}.png", 60 * row + number)
    return tmp_path / "animals"


def read(folder: Path, **options: Any) -> DomainFolder:
    return DomainFolder(folder=folder, resize=34, crop=32, **options)


def drawn(stream: Stream) -> dict[str, set[str]]:
    """Return the natural domains of the samples that came in each domain of a stream."""
    assert stream.length is not None
    picks, data = stream.plan.picks(0, stream.length), stream.data
    parts: dict[str, set[str]] = {}
    for sample, domain in zip(picks.samples, picks.domains, strict=True):
        part = data.domain_names[data.domain_of[sample]]  # type: ignore[attr-defined]
        parts.setdefault(stream.domains[domain], set()).add(part)
    return parts


def test_every_folder_is_a_domain_with_its_own_samples(animals: Path) -> None:
    data = read(animals)
    assert data.domain_names == ("art", "photo", "sketch")
    assert data.class_names == ("cat", "dog")
    stream = continual(data, corruptions=["photo", "sketch", "art"])
    assert stream.length == 12
    assert [(len(batch), set(batch.domains)) for batch in stream] == [(7, {"photo"}), (3, {"sketch"}), (2, {"art"})]
    assert drawn(stream) == {"photo": {"photo"}, "sketch": {"sketch"}, "art": {"art"}}
    photos = next(iter(stream))
    assert sorted(photos.labels.tolist()) == [0, 0, 0, 0, 1, 1, 1]
    assert (photos.inputs * 255).round().amax() < 60  # only images of that folder


def test_domains_are_mixed_corrupted_chosen_and_repeated(animals: Path) -> None:
    data = read(animals)
    mixed = mixed_domains(data, corruptions=["photo", "sketch"])
    assert drawn(mixed) == {"photo": {"photo"}, "sketch": {"sketch"}}
    assert mixed.length == 10
    corrupted = gradual(data, corruptions=["sketch+fog"], severities=[1, 5])
    assert corrupted.domains == ("sketch+fog",)
    assert drawn(corrupted) == {"sketch+fog": {"sketch"}}
    assert not np.array_equal(*(batch.inputs.numpy() for batch in corrupted))
    everything = continual(data, corruptions=["clean"])
    assert drawn(everything) == {"clean": {"photo", "sketch", "art"}}
    twice = continual(data, corruptions=["sketch", "art"], samples_per_domain=5)
    counts = np.unique(twice.plan.picks(0, 5).samples, return_counts=True)[1]
    assert twice.length == 10
    assert sorted(counts.tolist()) == [1, 2, 2]  # once through the three sketches, then two of them
    assert read(animals, domains=["sketch"]).class_names == ("cat", "dog")
    art = read(animals, domains=["art"])  # which has no dogs
    assert (art.class_names, art.labels.tolist()) == (("cat", "dog"), [0, 0])


@pytest.mark.parametrize("options", [{}, {"mode": "official"}, {"exhaust": "stop", "samples": 50}])
def test_chains_draw_from_the_samples_of_each_domain(animals: Path, options: dict[str, Any]) -> None:
    data = read(animals)
    stream = markov(data, corruptions=["photo", "sketch"], seed=3, **options)
    assert all(parts == {name} for name, parts in drawn(stream).items())
    if not options:
        assert stream.length == 10
    # There are no paintings of dogs: only the class that every domain has is drawn.
    cats = markov(data, corruptions=["photo", "art"], seed=3)
    assert set(data.labels[cats.plan.picks(0, cats.length or 0).samples].tolist()) == {0}
    assert drawn(unitta(data, setting="(i,1)/(1,1)", corruptions=["photo", "sketch"])).keys() == {"photo", "sketch"}


def test_natural_domains_are_part_of_the_protocol(animals: Path) -> None:
    data = read(animals)
    one, other = (continual(data, corruptions=names) for names in (["photo"], ["art"]))
    assert one.protocol != other.protocol
    for stream in (one, markov(data, corruptions=["photo", "sketch"])):
        copy = pickle.loads(pickle.dumps(stream))
        assert np.array_equal(copy.plan.picks(0, 7).samples, stream.plan.picks(0, 7).samples)
    before = data.digest
    (animals / "art" / "cat" / "0.png").rename(animals / "sketch" / "cat" / "7.png")
    assert read(animals).digest != before


def test_unknown_domains_are_refused_with_a_hint(animals: Path) -> None:
    with pytest.raises(ValueError, match=r"unknown domain or corruption 'sketh'; did you mean 'sketch'\?"):
        continual(read(animals), corruptions=["sketh"])
    with pytest.raises(ValueError, match=r"there is no domain 'fotos'"):
        read(animals, domains=["fotos"])
    with pytest.raises(ValueError, match=r"domains must be a list of names, got 'art'"):
        read(animals, domains="art")


def test_lists_choose_files_and_labels(animals: Path) -> None:
    (animals / "photo_list.txt").write_text("photo/dog/0.png 1\nphoto/cat/2.png 0\n")
    (animals / "sketch_list.txt").write_text("sketch/dog/1.png 1\n")
    data = read(animals)
    assert data.files == ("photo/dog/0.png", "photo/cat/2.png", "sketch/dog/1.png")
    assert (data.labels.tolist(), data.class_names) == ([1, 0, 1], ("cat", "dog"))
    (animals / "photo_list.txt").write_text("photo/dog/0.png\n")
    with pytest.raises(ValueError, match=r"line 1 of .* needs a path and a label"):
        read(animals)


@pytest.mark.parametrize(("kind", "unpacked"), [(ImageNetR, "imagenet-r"), (ImageNetA, "imagenet-a")])
def test_subsets_of_imagenet_know_the_outputs_of_their_classes(
    kind: type[ImageNetR] | type[ImageNetA], unpacked: str, tmp_path: Path
) -> None:
    last = len(kind.class_indices) - 1
    for label in (0, last):
        write(tmp_path / unpacked / imagenet_wnids()[kind.class_indices[label]] / "1.png")
    data = kind(folder=tmp_path)
    assert len(kind.class_indices) == len(set(kind.class_indices)) == len(data.class_names) == 200
    assert list(kind.class_indices) == sorted(kind.class_indices)
    assert data.labels.tolist() == [0, last]
    assert [data.class_names[label] for label in data.labels] == [Path(file).parent.name for file in data.files]
    write(tmp_path / unpacked / "n01440764" / "1.png")  # a class of ImageNet that neither has
    with pytest.raises(ValueError, match=r"holds 'n01440764', which is no class of this data set; download"):
        kind(folder=tmp_path)


def test_sketch_and_v2_have_all_classes(tmp_path: Path) -> None:
    for index in (2, 10, 999):
        write(tmp_path / "sketch" / imagenet_wnids()[index] / "sketch_1.JPEG")
        write(tmp_path / "imagenetv2-threshold0.7-format-val" / str(index) / "a.jpeg")
    sketch, v2 = ImageNetSketch(folder=tmp_path), ImageNetV2(folder=tmp_path, variant="threshold-0.7")
    assert sketch.labels.tolist() == [2, 10, 999]
    assert sorted(v2.labels.tolist()) == [2, 10, 999]
    assert all(int(Path(file).parent.name) == label for file, label in zip(v2.files, v2.labels, strict=True))
    assert len(sketch.class_indices) == len(v2.class_indices) == 1000
    with pytest.raises(ValueError, match="variant must be one of matched-frequency"):
        ImageNetV2(folder=tmp_path, variant="val")  # type: ignore[arg-type]


def test_d109_joins_folders_and_leaves_others_out(tmp_path: Path) -> None:
    for domain in ("real", "sketch"):
        for name in ("zebra", "couch", "bed", "cow", "tiger"):
            write(tmp_path / domain / name / "1.png")
    data = ImageNetD109(folder=tmp_path)
    named = [data.class_names[label] for label in data.labels]
    assert sorted(named) == sorted(["zebra", "bed", "bed", "tiger"] * 2)  # a couch is a bed, a cow is none of these
    output = {name: data.class_indices[label] for label, name in enumerate(data.class_names)}
    # Indices of ImageNet: tiger 292, zebra 340, studio couch 831.
    assert (output["tiger"], output["zebra"], output["bed"], len(output)) == (292, 340, 831, 109)
    assert len(set(data.class_indices)) == 109
    assert continual(data, corruptions=["real", "sketch"]).length == 8


def test_locations_are_domains(tmp_path: Path) -> None:
    rows = [("train", 7, 3), ("test", 9, 1), ("test", 8, 3), ("test", 9, 0)]
    lines = [f"{split},{location},x,{y},{i}.png" for i, (split, location, y) in enumerate(rows)]
    folder = tmp_path / "iwildcam_v2.0"
    for number in range(4):
        write(folder / "train" / f"{number}.png", number)
    (folder / "metadata.csv").write_text("\n".join(["split,location_remapped,location,y,filename", *lines]))
    traps = IWildCam(folder=tmp_path, side=32)
    assert traps.labels.tolist() == [1, 3, 0]
    stream = continual(traps, corruptions=["location_8", "location_9"])
    assert drawn(stream) == {"location_8": {"location_8"}, "location_9": {"location_9"}}
    assert traps.inputs(np.array([0])).shape == (1, 32, 32, 3)  # 40 × 36 pixels, squeezed
    with pytest.raises(ValueError, match="no split 'tset'; choose one of test, train"):
        IWildCam("tset", folder=tmp_path)  # type: ignore[arg-type]


def test_hospitals_are_domains_and_two_are_held_out(tmp_path: Path) -> None:
    listed = [("004", 0, 0), ("020", 1, 0), ("046", 2, 0), ("099", 3, 1)]  # patient, hospital, split
    folder = tmp_path / "camelyon17_v1.0"
    for number, (who, _, _) in enumerate(listed):
        slide = f"patient_{who}_node_4"
        write(folder / "patches" / slide / f"patch_{slide}_x_3328_y_{number}.png")
    lines = [f"{i},{who},4,3328,{i},1,7,{hospital},{split}" for i, (who, hospital, split) in enumerate(listed)]
    head = ",patient,node,x_coord,y_coord,tumor,slide,center,split"
    (folder / "metadata.csv").write_text("\n".join([head, *lines]))
    splits = {split: Camelyon17(split, folder=tmp_path).domain_names for split in ("train", "val", "test", "id_val")}
    assert splits == {
        "train": ("hospital_0",),
        "val": ("hospital_1",),
        "test": ("hospital_2",),
        "id_val": ("hospital_3",),
    }
    assert len(Camelyon17("all", folder=tmp_path).domain_names) == 4


def test_the_digest_covers_labels_and_domains_of_a_table(tmp_path: Path) -> None:
    def digest(*labelled: tuple[int, int]) -> str:
        rows = [f"test,{location},{y},{number}.png" for number, (y, location) in enumerate(labelled)]
        table = "\n".join(["split,location_remapped,y,filename", *rows, "train,1,5,0.png"])
        (tmp_path / "metadata.csv").write_text(table)
        return IWildCam(folder=tmp_path, side=32).digest

    for number in range(3):
        write(tmp_path / "train" / f"{number}.png")
    assert len({digest((0, 5)), digest((1, 5)), digest((1, 6))}) == 3
    assert digest((0, 5), (0, 6), (0, 5)) != digest((0, 5), (0, 6), (0, 6))  # the same names


def test_a_missing_array_is_answered_with_the_address(
    tmp_path: Path, make_images: Callable[..., NDArray[np.uint8]]
) -> None:
    np.save(tmp_path / "cifar10.1_v4_data.npy", make_images(3))
    np.save(tmp_path / "cifar10.1_v4_labels.npy", np.array([9, 0, 3], np.int32))
    assert Cifar101("v4", folder=tmp_path).labels.tolist() == [9, 0, 3]
    with pytest.raises(ValueError, match=r"has no cifar10.1_v6_data.npy; download .*modestyachts/CIFAR-10.1"):
        Cifar101(folder=tmp_path)
