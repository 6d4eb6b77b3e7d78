"""Ordinary networks for measurements of the default: trained from scratch, transferred, and without BatchNorm.

    python benchmarks/ordinary.py --data data --nets nets
    python benchmarks/ordinary.py --data data --nets nets --golden weights "lite0 linear, PACS"

Networks that are missing in the folder of `--nets` are trained on one core and kept there, and so are corrupted inputs.
`--golden` is a folder with networks that others trained on CIFAR-10; they are copied to `--nets`, where `subjects`
finds them. `--data` holds Parquet files: `pacs/samples`, `mnist/samples`, `cifar10/train` and `test`, `fsdd/train` and
`test`, `esc10/all`. Choices are made on subjects of half A, and those of half B confirm them. For each subject the
accuracy of the network as it is, in %, is printed for every domain.
"""

from __future__ import annotations

import argparse
import io
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from measured import add_json, write
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import load_file, save
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from holdfast.corruptions import CORRUPTIONS
from holdfast.data import AudioParquet, Cifar10, Dataset, Digits, InMemoryAudio, InMemoryImages, Keywords
from holdfast.data.tensors import as_inputs
from holdfast.decode.image_files import decode_image
from holdfast.decode.parquet import parquet_rows
from holdfast.machine.folders import write_whole
from holdfast.models import Classifier, LogMel, Preprocessing, ViT, load, load_weights, preprocessing_of, seeded_weights
from holdfast.randomness import seeded_rng
from holdfast.training import fit, flipped_crops, procedure_of
from holdfast.training.procedures import learning_rate

Labelled = tuple[Tensor, Tensor]  # inputs, labels
Train = Callable[[nn.Module], None]  # in place
ModuleT = TypeVar("ModuleT", bound=nn.Module)

BATCH_SIZE = 64
SOURCE_INPUTS = 256
GOLDEN = (
    "layernorm_cifar.py",
    "layernorm_cifar10.safetensors",
    "resnet20_cifar10_jpeg.safetensors",
    "resnet56_cifar10.safetensors",
)
CIFAR_SHIFTS = {
    "A": {"gaussian_noise": 3, "defocus_blur": 5, "snow": 4, "contrast": 5},
    "B": {"impulse_noise": 3, "glass_blur": 4, "fog": 5, "pixelate": 5},
}
DIGIT_SHIFTS = {
    "A": ("gaussian_noise", "snow", "pixelate", "defocus_blur", "brightness", "elastic_transform"),
    "B": ("contrast", "fog", "impulse_noise", "motion_blur", "shot_noise", "jpeg_compression"),
}
AUDIO_SHIFTS = {"white_noise": 3, "pitch_shift": 3, "time_stretch": 3, "end1": 3}
PHOTOS = {"fitted": slice(0, 60), "source": slice(60, 92), "test": slice(92, 132)}  # of each class
TUNED_LR = 5e-4


@dataclass(frozen=True)
class Subject:
    """A network in eval mode with unlabelled inputs of its source and labelled test inputs of several domains."""

    name: str
    kind: str  # "scratch", "transfer" or "without BatchNorm"
    half: str  # "A" or "B"
    network: nn.Module
    source: list[Tensor]  # batches of 64; none of them is a test input
    domains: dict[str, Labelled]  # the first one is that of the source


def subjects(data: Path, nets: Path) -> dict[str, Callable[[], Subject]]:
    """Return a builder for each subject by name; what is missing in `nets` is trained when it is called."""
    known: dict[str, Callable[..., Subject]] = {
        "lite0 linear, PACS": partial(on_pacs, half="A", model="efficientnet_lite0"),
        "lite1 linear, PACS": partial(on_pacs, half="B", model="efficientnet_lite1"),
        "lite2 linear, PACS": partial(on_pacs, half="B", model="efficientnet_lite2"),
        "lite0 tuned, PACS": partial(on_pacs, half="B", model="efficientnet_lite0", tuned=True),
        "lite1 tuned, PACS": partial(on_pacs, half="B", model="efficientnet_lite1", tuned=True),
        "lite2 tuned, PACS": partial(on_pacs, half="B", model="efficientnet_lite2", tuned=True),
        "vit, CIFAR-10": partial(on_cifar, kind="without BatchNorm", half="B", network=cifar_vit),
        "layernorm, CIFAR-10": partial(on_cifar, kind="without BatchNorm", half="A", network=cifar_layernorm),
        "vit, digits": partial(on_digits, kind="without BatchNorm", half="A", model="digits_vit"),
        "resnet gn, digits": partial(on_digits, kind="without BatchNorm", half="A", model="digits_resnet_gn"),
        "vit, keywords": partial(on_keywords, kind="without BatchNorm", half="B", network=keywords_vit),
        "resnet, digits": partial(on_digits, kind="scratch", half="A", model="digits_resnet", exposures=True),
        "amaut, keywords": partial(on_keywords, kind="scratch", half="B", network=keywords_amaut),
        "resnet20, CIFAR-10": partial(on_cifar, kind="scratch", half="A", network=cifar_resnet20),
        "resnet56, CIFAR-10": partial(on_cifar, kind="scratch", half="B", network=cifar_resnet56),
        "amaut linear, FSDD": linear_on_fsdd,
        "amaut linear, ESC-10": linear_on_esc10,
        "lite0 linear, CIFAR-10": linear_on_cifar,
    }
    return {name: partial(build, data, nets, name) for name, build in known.items()}


# EfficientNet on PACS: photo -> art painting, cartoon, sketch ------------------------------------------------------


def on_pacs(data: Path, nets: Path, name: str, *, half: str, model: str, tuned: bool = False) -> Subject:
    """Return a network of ImageNet with a linear head for the classes of PACS, fitted on photos.

    `tuned`: then the last three blocks, the last convolution and the head are trained on the same photos.
    """
    network = load(model)
    photos, domains = pacs(data, prepared(network))
    add_head(network, 7)
    trained(network, nets / f"{model}_pacs.safetensors", partial(fit_head, data=photos["fitted"]))
    if tuned:
        trained(network, nets / f"{model}_pacs_tuned.safetensors", partial(tune, data=photos["fitted"]))
    return Subject(name, "transfer", half, network, batches(photos["source"][0]), domains)


def pacs(data: Path, prepare: Preprocessing) -> tuple[dict[str, Labelled], dict[str, Labelled]]:
    """Return photos to fit on and photos of the source, and the test images of each domain."""
    pictures: dict[str, list[tuple[Tensor, int]]] = {}
    for stored, label, domain in parquet_rows(data / "pacs" / "samples.parquet", "image", "label", "domain"):
        image = prepare.image(decode_image(io.BytesIO(stored["bytes"]), stored["path"]))
        pictures.setdefault(domain.replace("_", " "), []).append((image, label))
    photos = pictures.pop("photo")
    of_class = [[row for row in photos if row[1] == label] for label in range(7)]
    parts = {part: [row for rows in of_class for row in rows[chosen]] for part, chosen in PHOTOS.items()}
    fitting = {part: shuffled(rows) for part, rows in parts.items()}
    return fitting, {"photo": fitting.pop("test"), **{domain: shuffled(rows) for domain, rows in pictures.items()}}


def shuffled(rows: Sequence[tuple[Tensor, int]]) -> Labelled:
    """Return inputs and labels in an order without classes, the same every time."""
    order = seeded_rng(0, "order").permutation(len(rows))
    return torch.stack([rows[row][0] for row in order]), torch.tensor([rows[row][1] for row in order])


class LastParts(nn.Module):
    """A network of which only some parts are trained; all others stay in eval mode."""

    def __init__(self, network: nn.Module, parts: Sequence[nn.Module]) -> None:
        super().__init__()
        self.network = network.requires_grad_(False)
        self.parts = nn.ModuleList(parts).requires_grad_(True)

    def train(self, mode: bool = True) -> LastParts:
        """Change the mode of the trained parts."""
        self.network.eval()
        self.parts.train(mode)
        return self

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits."""
        logits: Tensor = self.network(inputs)
        return logits


def tune(network: nn.Module, data: Labelled, epochs: int = 8) -> None:
    """Train the last blocks of an EfficientNet on flipped crops."""
    inputs, labels = data
    images = (inputs * 255).round().byte().permute(0, 2, 3, 1).contiguous().numpy()
    inner = dict(network.get_submodule("module").named_children())
    last = [*inner["_blocks"].children()][-3:]

    def warm_cosine(optimizer: torch.optim.Optimizer, epoch: int, share: float, epochs: int) -> None:
        optimizer.param_groups[0]["lr"] = learning_rate((epoch + share) / epochs, TUNED_LR)

    procedure = replace(procedure_of("images"), views=(flipped_crops,), schedule=warm_cosine)
    parts = [*last, inner["_conv_head"], inner["_bn1"], inner["_fc"]]
    fit(LastParts(network, parts), InMemoryImages(images, labels.numpy()), procedure=procedure, epochs=epochs)
    network.requires_grad_(True)


# Small images ------------------------------------------------------------------------------------------------------


def on_cifar(
    data: Path, nets: Path, name: str, *, kind: str, half: str, network: Callable[[Path, Path], nn.Module]
) -> Subject:
    """Return a network of CIFAR-10 with 512 test images, as they are and corrupted; others are the source."""
    tested = Cifar10("test", folder=data / "cifar10")
    source = as_inputs(tested.images[-SOURCE_INPUTS:])
    domains = shifted(nets / f"cifar10 {half}", tested.images[:512], tested.labels[:512], CIFAR_SHIFTS[half])
    return Subject(name, kind, half, network(data, nets), batches(source), domains)


def cifar_vit(data: Path, nets: Path) -> nn.Module:
    """Return a ViT of 0.3 million weights; training takes half an hour."""
    with seeded_weights(0):
        network = ViT(width=96, depth=4, heads=3)
    procedure = replace(procedure_of("images"), views=(flipped_crops,), batch_size=BATCH_SIZE)
    learn = partial(fit_on, lambda: Cifar10("train", folder=data / "cifar10"), procedure=procedure, epochs=12)
    return trained(network, nets / "vit_cifar10.safetensors", learn)


def cifar_layernorm(_data: Path, nets: Path) -> nn.Module:
    """Return the network with LayerNorm that others trained, by its own definition."""
    weights = {"path": str(nets / "layernorm_cifar10.safetensors")}
    return load("file", target=f"{nets / 'layernorm_cifar.py'}:load", arguments=weights)


def cifar_resnet20(_data: Path, nets: Path) -> nn.Module:
    """Return a ResNet-20 that others trained."""
    return load("cifar_resnet", weights=str(nets / "resnet20_cifar10_jpeg.safetensors"))


def cifar_resnet56(_data: Path, nets: Path) -> nn.Module:
    """Return a ResNet-56 that others trained."""
    return load("cifar_resnet", weights=str(nets / "resnet56_cifar10.safetensors"))


def linear_on_cifar(data: Path, nets: Path, name: str) -> Subject:
    """Return EfficientNet-Lite0 with a linear head for CIFAR-10, fitted on 2000 enlarged images."""
    network = load("efficientnet_lite0")
    prepare = prepared(network)

    def enlarged(images: NDArray[np.uint8]) -> Tensor:
        return torch.stack([prepare.image(Image.fromarray(image)) for image in images])

    def learn(network: nn.Module) -> None:
        train = Cifar10("train", folder=data / "cifar10")
        fit_head(network, (enlarged(train.images[:2000]), torch.from_numpy(train.labels[:2000])))

    add_head(network, 10)
    trained(network, nets / "efficientnet_lite0_cifar10.safetensors", learn)
    tested = Cifar10("test", folder=data / "cifar10")
    shifts = dict.fromkeys(CIFAR_SHIFTS["B"], 3)
    labels = torch.from_numpy(tested.labels[:256])
    images = {"clean": tested.images[:256], **corrupted(tested.images[:256], shifts)}
    domains = {domain: (enlarged(pictures), labels) for domain, pictures in images.items()}
    return Subject(name, "transfer", "B", network, batches(enlarged(tested.images[-SOURCE_INPUTS:])), domains)


def on_digits(
    data: Path, nets: Path, name: str, *, kind: str, half: str, model: str, exposures: bool = False
) -> Subject:
    """Return a network of the embedded digits with corruptions and MNIST, and inverted and over-exposed digits."""
    tested, labels = Digits("test"), torch.from_numpy(Digits("test").labels)
    shifts = dict.fromkeys(DIGIT_SHIFTS[half], 3)
    domains = shifted(nets / f"digits {half}", tested.images, tested.labels, shifts, family="224")
    rows = [*parquet_rows(data / "mnist" / "samples.parquet", "image", "label")][:1024]
    digits = np.stack([as_digit(decode_image(io.BytesIO(stored["bytes"]))) for stored, _ in rows])
    domains["MNIST"] = as_inputs(digits), torch.tensor([label for _, label in rows])
    if exposures:
        clean, _ = domains["clean"]
        domains |= {"inverted": (1 - clean, labels), "over-exposed": ((2.5 * clean).clamp(max=1), labels)}
    source = as_inputs(Digits("validation").images)
    return Subject(name, kind, half, load(model), batches(source), domains)


def as_digit(picture: Image.Image) -> NDArray[np.uint8]:
    """Return an image of MNIST in the form of the embedded digits: 32 pixels high, reduced to 8×8, enlarged again."""
    grey = picture.convert("L")
    left, top, right, bottom = grey.point(lambda level: 255 * (level > 64)).getbbox() or (0, 0, *grey.size)
    width = min(28, max(4, round(32 * (right - left) / (bottom - top))))
    large = Image.new("L", (32, 32))
    large.paste(grey.resize((width, 32), Image.Resampling.BILINEAR, (left, top, right, bottom)), ((32 - width) // 2, 0))
    enlarged = large.reduce(4).resize((32, 32), Image.Resampling.BICUBIC)
    return np.repeat(np.asarray(enlarged)[..., None], 3, axis=-1)


# Audio -------------------------------------------------------------------------------------------------------------


def on_keywords(
    _data: Path, nets: Path, name: str, *, kind: str, half: str, network: Callable[[Path], nn.Module]
) -> Subject:
    """Return a network of the embedded keywords with 576 test clips; clips of other voices are the source."""
    tested = Keywords("test")
    rows = seeded_rng(0, "order").permutation(len(tested.labels))[:576]
    source = Keywords("validation")
    unlabelled = source.inputs(seeded_rng(0, "source").permutation(len(source.labels))[:SOURCE_INPUTS])
    domains = shifted(nets / "keywords", tested.inputs(rows), tested.labels[rows], AUDIO_SHIFTS)
    return Subject(name, kind, half, network(nets), batches(as_inputs(unlabelled)), domains)


def keywords_amaut(_nets: Path) -> nn.Module:
    """Return the AMAuT of the package, whose head has a BatchNorm."""
    return load("keywords_amaut")


class SpectrogramViT(nn.Module):
    """A transformer on patches of a log-mel spectrogram (Gong et al., Interspeech 2021): LayerNorm alone."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.front_end = LogMel(sample_rate=16_000, samples=16_000, mels=64, fft=1024, window=400, hop=250)
        self.vit = ViT(
            size=64, patch=8, width=96, depth=4, heads=3, num_classes=num_classes, mean=(-0.5,) * 3, std=(1.0,) * 3
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits for waveforms in [-1, 1], (batch, 16 000)."""
        images = self.front_end(inputs)[:, None, :, :64].expand(-1, 3, -1, -1)
        logits: Tensor = self.vit(images)
        return logits


def keywords_vit(nets: Path) -> nn.Module:
    """Return a transformer of the embedded keywords."""
    with seeded_weights(0):
        network = SpectrogramViT(24)
    learn = partial(fit_on, lambda: Keywords("train"), procedure=procedure_of("audio"), epochs=40)
    return trained(network, nets / "vit_keywords.safetensors", learn)


def linear_on_fsdd(data: Path, nets: Path, name: str) -> Subject:
    """Return the AMAuT of the keywords with a linear head for spoken digits."""
    train, tested = (AudioParquet(file=data / "fsdd" / f"{part}.parquet", seconds=1) for part in ("train", "test"))
    return linear_audio(nets, name, "B", train, tested)


def linear_on_esc10(data: Path, nets: Path, name: str) -> Subject:
    """Return the AMAuT of the keywords with a linear head for seconds of environmental sounds: folds 1-4, test 5."""
    train, tested = (seconds_of_esc10(data, folds) for folds in ((1, 2, 3, 4), (5,)))
    return linear_audio(nets, name, "B", train, tested)


def seconds_of_esc10(data: Path, folds: Sequence[int]) -> InMemoryAudio:
    """Return every second of these folds that is not silent."""
    clips = AudioParquet(file=data / "esc10" / "all.parquet", seconds=5, only={"fold": folds})
    seconds = clips.waveforms.reshape(-1, 16_000)
    heard = np.abs(seconds).max(1) > 0.01
    return InMemoryAudio(seconds[heard], np.repeat(clips.labels, 5)[heard], sample_rate=16_000)


def linear_audio(nets: Path, name: str, half: str, train: InMemoryAudio, tested: InMemoryAudio) -> Subject:
    """Return the AMAuT with a linear head; 256 training clips are left out of the fit and are the source."""
    order = seeded_rng(0, "order").permutation(len(train.labels))
    clips, labels = torch.from_numpy(train.waveforms[order]), torch.from_numpy(train.labels[order])
    network = load("keywords_amaut")
    add_head(network, int(labels.max()) + 1)
    learn = partial(fit_head, data=(clips[SOURCE_INPUTS:], labels[SOURCE_INPUTS:]))
    trained(network, nets / f"{name}.safetensors", learn)
    domains = shifted(nets / name.partition(", ")[2], tested.waveforms, tested.labels, AUDIO_SHIFTS)
    return Subject(name, "transfer", half, network, batches(clips[:SOURCE_INPUTS]), domains)


# What all of them share --------------------------------------------------------------------------------------------


def add_head(network: nn.Module, classes: int) -> None:
    """Put a new linear layer in the place of the head."""
    classifier = Classifier(network)
    parent, _, name = (classifier.head_name or "").rpartition(".")
    with seeded_weights(0):
        network.get_submodule(parent).add_module(name, nn.Linear(classifier.feature_width, classes))


@torch.no_grad()
def fit_head(network: nn.Module, data: Labelled) -> None:
    """Fit the head by logistic regression on the features of a frozen network."""
    classifier = Classifier(network)
    inputs, labels = data
    features = torch.cat([classifier.encode(batch) for batch in batches(inputs)])
    regression = LogisticRegression(max_iter=5000).fit(features.numpy(), labels.numpy())
    state = {"weight": torch.from_numpy(regression.coef_), "bias": torch.from_numpy(regression.intercept_)}
    if classifier.head is not None:
        classifier.head.load_state_dict(state)


def fit_on(data: Callable[[], Dataset], network: nn.Module, **options: Any) -> None:
    """Train a network, and tell how far it is."""
    start = time.perf_counter()

    def tell(done: int, total: int, loss: float) -> None:
        print(f"{done} of {total} epochs, loss {loss:.3f}, {time.perf_counter() - start:.0f} s", flush=True)

    fit(network, data(), progress=tell, **options)


def trained(network: ModuleT, path: Path, learn: Train) -> ModuleT:
    """Return a network in eval mode with its kept weights, or train it and keep them."""
    if not path.is_file():
        learn(network)
        write_whole(path, save({name: tensor.contiguous() for name, tensor in network.state_dict().items()}))
    return load_weights(network, path)


def prepared(network: nn.Module) -> Preprocessing:
    """Return how the network's zoo prepares images."""
    preprocessing = preprocessing_of(network)
    if preprocessing is None:
        raise ValueError(f"{type(network).__name__} does not say how it takes images; load it from a zoo")
    return preprocessing


def shifted(
    cache: Path, samples: NDArray[Any], labels: NDArray[np.int64], shifts: Mapping[str, int], **known: Any
) -> dict[str, Labelled]:
    """Return samples as they are and corrupted; the corrupted ones are kept beside the networks."""
    path, truth = cache.with_suffix(".domains.safetensors"), torch.from_numpy(labels)
    if not path.is_file():
        made = {domain: torch.from_numpy(images) for domain, images in corrupted(samples, shifts, **known).items()}
        write_whole(path, save(made))
    stored = load_file(path)
    return {"clean": (as_inputs(samples), truth), **{name: (as_inputs(stored[name]), truth) for name in shifts}}


def corrupted(samples: NDArray[Any], shifts: Mapping[str, int], **known: Any) -> dict[str, NDArray[Any]]:
    """Return the samples under each corruption at its severity."""
    return {
        name: CORRUPTIONS[name].batch(samples, severity, [*generators(name, len(samples))], **known)
        for name, severity in shifts.items()
    }


def generators(purpose: str, count: int) -> Iterator[np.random.Generator]:
    """Yield one generator for each sample."""
    return (seeded_rng(0, purpose, row) for row in range(count))


def batches(inputs: Tensor) -> list[Tensor]:
    """Return the inputs in batches."""
    return [*inputs.split(BATCH_SIZE)]


@torch.no_grad()
def accuracies(subject: Subject) -> dict[str, float]:
    """Return the accuracy of the network as it is in %, by domain."""
    right = {
        domain: torch.cat([subject.network(batch).argmax(1) for batch in batches(inputs)]) == labels
        for domain, (inputs, labels) in subject.domains.items()
    }
    return {domain: round(100 * float(hits.float().mean()), 2) for domain, hits in right.items()}


def main() -> None:
    """Build the named subjects, or all, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="subjects, by default all")
    parser.add_argument("--data", type=Path, required=True, help="folder of the Parquet files")
    parser.add_argument("--nets", type=Path, required=True, help="folder in which networks are kept")
    parser.add_argument("--golden", type=Path, help="folder of networks that others trained, copied to --nets")
    add_json(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for file in GOLDEN if options.golden else ():
        if not (options.nets / file).exists():
            shutil.copyfile(options.golden / file, options.nets / file)
    known = subjects(options.data, options.nets)
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"there is no subject {unknown[0]!r}; choose from {'; '.join(known)}")
    measured = {}
    for name in options.names or known:
        subject = known[name]()
        measured[name] = accuracies(subject)
        shares = ", ".join(f"{domain} {share:.1f}" for domain, share in measured[name].items())
        print(f"{name} | {subject.kind} | {subject.half} | {shares}", flush=True)
    write(options.json, measured)


if __name__ == "__main__":
    main()
