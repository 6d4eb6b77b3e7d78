"""Jobs of every published suite run end to end on small files in the layouts of the real data sets."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.io import wavfile

from holdfast.benchmark import Job, load_suite, run, suite_names
from holdfast.benchmark.job import SourceData
from holdfast.data import DATASETS, Crop, InMemoryImages, ReefSet
from holdfast.data.image_folder import ImageFiles
from holdfast.data.imagenet_classes import IMAGENET_A, IMAGENET_R, imagenet_wnids
from holdfast.options.spec import Spec
from holdfast.report import make_report
from holdfast.streams import STREAMS, Calibration, Transition, export_shards

CLASSES = 10
FIFTEEN = load_suite("aetta-fully").streams[0].spec.options["corruptions"]
HOLDOUT = ["speckle_noise", "gaussian_blur", "spatter", "saturate"]
THREE_D = load_suite("cin-c", scale="paper").streams[1].spec.options["corruptions"]
NETWORK = """
from torch import nn

class Heard(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.pool, self.norm, self.head = nn.AdaptiveAvgPool1d(16), nn.BatchNorm1d(16), nn.Linear(16, classes)

    def forward(self, clips):
        return self.head(self.norm(self.pool(clips[:, None])[:, 0]))

def make(classes):
    return Heard(classes)
"""


def noisy(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).integers(0, 256, shape, np.uint8)


def cifar_c(folder: Path, classes: int) -> None:
    folder.mkdir(parents=True)
    labels = np.arange(20) * (classes // 10) % classes
    for name in FIFTEEN:
        np.save(folder / f"{name}.npy", noisy(100, 32, 32, 3))
    np.save(folder / "labels.npy", np.tile(labels, 5))


def cifar(folder: Path, name: str) -> None:
    folder.mkdir(parents=True)
    np.savez(folder / f"{name}.npz", images=noisy(20, 32, 32, 3), labels=np.arange(20) % 10)


def image_folders(folder: Path, size: int = 40) -> None:
    for label in range(CLASSES):
        for number in range(2):
            path = folder / f"n{label:02}" / f"ILSVRC2012_val_{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(noisy(size, size + number * (size == 40), 3)).save(path)  # ImageNet has several sizes


def stored_folders(folder: Path, names: list[str], severities: list[int]) -> None:
    for name in names:
        for severity in severities:
            image_folders(folder / name / str(severity), 32)


def clip(path: Path, rate: int = 16_000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    wavfile.write(path, rate, np.random.default_rng(1).integers(-9000, 9000, 400).astype(np.int16))


FAMILIES = ("WHN", "ENQ", "END1", "END2", "ENSC", "TST", "PSH")
CRITERIA = [(family, level) for family in FAMILIES for level in ("L1", "L2")]


def released(folder: Path, below: str, files: list[str]) -> None:
    """Write clips for all criteria, as the released sets hold them."""
    for family, level in CRITERIA:
        for file in files:
            clip(folder / below / family / level / file)


def speech_commands(data: Path) -> None:
    files = ["cat/0.wav", "go/1.wav"]
    for file in files:
        clip(data / "speech_commands_v0.02" / file)
    released(data / "SC2-C", "", files)
    for name in ("speech_commands_v0.02", "SC2-C"):
        (data / name / "testing_list.txt").write_text("\n".join(files))
        (data / name / "validation_list.txt").write_text("")


def vocalsound(data: Path) -> None:
    files = ["a.wav", "b.wav"]
    for file in files:
        clip(data / "vs_release_16k/audio_16k" / file)
    released(data / "VS-C", "audio_16k", files)
    listed = [{"wav": file, "labels": f"/m/{file[0]}"} for file in files]
    for name in ("vs_release_16k", "VS-C"):
        (data / name / "datafiles").mkdir()
        (data / name / "datafiles/te.json").write_text(json.dumps({"data": listed}))
        (data / name / "class_labels_indices_vs.csv").write_text("index,mid,display_name\n0,/m/a,Sigh\n1,/m/b,Cough\n")


def urbansound(data: Path) -> None:
    files = ["fold8/a.wav", "fold9/b.wav"]
    for file in files:
        clip(data / "UrbanSound8K/audio" / file, 44_100)
    released(data / "US8-C", "audio", files)
    rows = "slice_file_name,fsID,start,end,salience,fold,classID,class\na.wav,0,0,1,1,8,0,x\nb.wav,0,0,1,1,9,1,x\n"
    for name in ("UrbanSound8K", "US8-C"):
        (data / name / "metadata").mkdir()
        (data / name / "metadata/UrbanSound8K.csv").write_text(rows)


def reefset(data: Path) -> None:
    index = [{"id": k, "file_name": f"{k}.wav", "label": ("boat", "wave")[k % 2]} for k in range(4)]
    for row in index:
        clip(data / "ReefSet_v1.0/full_dataset" / str(row["file_name"]))
    (data / "ReefSet_v1.0/reefset_annotations.json").write_text(json.dumps(index))
    tested = ReefSet(folder=data / "ReefSet_v1.0")
    names = [Path(file).name for file in tested.files]
    released(data / "RS-C", "", names)
    labels = [tested.class_names[label] for label in tested.labels]
    lines = [f"{name},{label}" for name, label in zip(names, labels, strict=True)]
    (data / "RS-C/test_annotations.csv").write_text("\n".join(["file_name,label", *lines]))


def picture(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(noisy(36, 36, 3)).save(path)


def natural(data: Path) -> None:
    """Write variants of ImageNet, domain folders and WILDS, two classes each."""
    wnids = {"imagenet-r": IMAGENET_R, "imagenet-a": IMAGENET_A, "imagenet-sketch/sketch": (0, 999)}
    for folder, indices in wnids.items():
        for index in (indices[0], indices[-1]):
            for number in range(4):
                picture(data / folder / imagenet_wnids()[index] / f"{number}.png")
    for number in range(8):
        picture(data / f"imagenet-v2/imagenetv2-matched-frequency-format-val/{number % 2 * 999}/{number}.png")
    sets = {
        "DomainNet": (["clipart", "infograph", "painting", "real", "sketch"], ["tiger", "zebra"]),
        "PACS": (["art_painting", "cartoon", "photo", "sketch"], ["dog", "horse"]),
        "OfficeHome": (["Art", "Clipart", "Product", "Real World"], ["Bed", "Fan"]),
        "DomainNet-126": (["clipart", "painting", "real", "sketch"], ["ant", "axe"]),
        "VisDA": (["train", "validation"], ["bus", "car"]),
    }
    for name, (domains, classes) in sets.items():
        for domain in domains:
            for number in range(8):
                picture(data / name / domain / classes[number % 2] / f"{number}.png")
    lines = ["split,location_remapped,y,filename", *(f"test,{number % 2},{number},{number}.png" for number in range(8))]
    patches = [",patient,node,x_coord,y_coord,tumor,slide,center,split"]
    for number in range(8):
        picture(data / f"iwildcam_v2.0/train/{number}.png")
        slide = f"patient_046_node_{number}"
        picture(data / f"camelyon17_v1.0/patches/{slide}/patch_{slide}_x_1_y_2.png")
        patches.append(f"{number},046,{number},1,2,{number % 2},{number},2,0")
    (data / "iwildcam_v2.0/metadata.csv").write_text("\n".join(lines))
    (data / "camelyon17_v1.0/metadata.csv").write_text("\n".join(patches))


@pytest.fixture(scope="module")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the suites expect `data`."""
    root = tmp_path_factory.mktemp("downloads")
    data = root / "data"
    cifar_c(data / "CIFAR-10-C", 10)
    cifar_c(data / "CIFAR-100-C", 100)
    for name in ("cifar10", "cifar100"):
        cifar(data / name, "train")
        np.savez(data / name / "test.npz", images=255 - noisy(20, 32, 32, 3), labels=np.arange(20) % 10)
    stored_folders(data / "ImageNet-C", [*FIFTEEN, *HOLDOUT], [5])
    for severity in (1, 2, 3, 4):
        stored_folders(data / "ImageNet-C", HOLDOUT, [severity])
    stored_folders(data / "ImageNet-3DCC", THREE_D, [5])
    image_folders(data / "imagenet/val")
    image_folders(data / "imagenet/train")
    path = Transition("contrast", "brightness", ((1, 0), (0, 0), (0, 1)), (30.0, 50.0, 40.0))
    for seed in (43, 44, 45):
        Calibration((path,), 40.0, crop=Crop("shifted")).save(data / f"ccc/medium-{seed}.json")
    few = InMemoryImages(noisy(20, 32, 32, 3), np.arange(20) % CLASSES)
    stream = STREAMS["ccc"](few, calibration=data / "ccc/medium-43.json", images_per_step=4, samples=8)
    export_shards(stream, data / "ccc/baseline_40_transition+speed_1000_seed_43", shard_images=8)
    walk = Transition("white_noise", "pitch_shift", ((1, 0), (0, 0), (0, 1)), (30.0, 50.0, 40.0))
    Calibration((walk,), 40.0).save(data / "ccc/audio.json")
    for write in (speech_commands, vocalsound, urbansound, reefset, natural):
        write(data)
    (root / "net.py").write_text(NETWORK)
    return root


AUDIO = {"us8": 10, "sc2": 35, "vs": 2, "rs": 2}  # classes


def small(job: Job) -> Job:
    """Return a job with a tiny network and few samples; its data, streams and recipes are the suite's."""
    audio = AUDIO.get(job.data.name.removesuffix("_c"))
    classes = 100 if "100" in str(job.data.options) else 1000 if job.data.name.startswith("imagenet_") else CLASSES
    target = {"target": "holdfast.models.tiny:tiny_resnet", "arguments": {"num_classes": classes}}
    model = Spec("imported", options=target)
    if audio is not None:
        model = Spec("file", options={"target": "net.py:make", "arguments": {"classes": audio}})
    options = {key: value for key, value in job.stream.options.items() if key != "noise"}
    options |= {key: 4 for key in ("samples_per_domain", "samples_per_stratum") if options.get(key)}
    if job.stream.name in ("ccc", "cross"):  # a calibration needs a network that predicts
        file = "data/ccc/audio.json" if audio else "data/ccc/medium-43.json"
        chains = {key: options[key] for key in ("classes", "transitions") if key in options}
        options = {**chains, "calibration": file, "images_per_step": 4, "samples": 8}
    recipe = {key: value for key, value in job.recipe.options.items() if key != "prediction_layer"}
    return replace(
        job,
        model=model,
        data=cut(job.data),
        recipe=Spec(job.recipe.name, job.recipe.label, recipe),
        stream=Spec(job.stream.name, job.stream.label, options),
        estimators=job.estimators[:1],
        source=None if job.source is None else SourceData(spec=cut(job.source.spec), samples=8),
        holdout=None if job.holdout is None else SourceData(spec=cut(job.holdout.spec), samples=8),
        batch_size=4,
        samples=8,
        epochs=1,
        scores=job.scores[:1],
    )


def cut(data: Spec) -> Spec:
    """Return images of 32 px."""
    smaller = {"side": 32} if data.name == "iwildcam" else {"resize": 36, "crop": 32}
    files = data.name in DATASETS and issubclass(DATASETS[data.name], ImageFiles) and data.name != "imagenet_c"
    return Spec(data.name, options={**data.options, **smaller}) if files else data


def chosen(suite: str) -> list[Job]:
    """Return one adapting job, or the source, for each kind of data and stream of a suite at the scale of the paper."""
    jobs: dict[tuple[str, ...], Job] = {}
    for scale in (name for name in load_suite(suite).scales if name.startswith("paper")):
        for job in load_suite(suite, scale=scale).jobs():
            key = (job.data.name, str(job.data.options.get("folder")), job.stream.name)
            if key not in jobs or jobs[key].recipe.name == "source":
                jobs[key] = job
    return list(jobs.values())


LONG = {"unitta", "unitta-sensitivity", "dhauds-online", "aetta-fully", "recovery"}  # like the others, and long


@pytest.mark.slow
@pytest.mark.parametrize(
    "suite",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in LONG else [])
        for name in suite_names()
        if not name.startswith("demo")
    ],
)
def test_a_suite_runs_on_downloaded_layouts(
    suite: str, downloads: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(downloads)
    jobs = chosen(suite)
    if not jobs:
        pytest.skip("the suite has no scale of a paper")
    for job in jobs:
        folder = run(small(job), tmp_path / "runs")
        assert json.loads((folder / "summary.json").read_text())["samples"] > 0
        stored = job.data.name.startswith("stored_") or job.data.name.endswith("_c")
        spec = json.loads((folder / "manifest.json").read_text())["stream"]["spec"]
        assert (spec.get("corruptions") == "stored") == stored
    assert make_report(tmp_path / "runs").tables
