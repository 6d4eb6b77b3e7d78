"""Cut the recorded outputs of the official implementations down to the part that is shipped in this folder.

    python tests/golden/cut_golden.py PATH_OF_THE_WHOLE_FOLDER

Files, keys and formats stay those of the whole folder, so one test reads both. Large arrays keep evenly spread rows and
columns, first and last included; `places_<count>` in the same file lists them.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdfast.corruptions import CORRUPTIONS

Arrays: TypeAlias = "dict[str, NDArray[Any]]"

OUT = Path(__file__).parent
SPREAD = {224: 40, 96: 24, 64: 20}  # side of a recorded image: rows and columns that are kept
CIFAR_IMAGES = [1, 3]  # of four: a cat and a ship
SAMPLES = 4  # every fourth sample of a waveform
VIEW_IMAGES, VIEW_SEEDS = 2, 4


def main(whole: Path) -> None:
    """Write the shipped files anew."""
    for folder in ("corruptions", "audio", "traces"):
        shutil.rmtree(OUT / folder, ignore_errors=True)
        (OUT / folder).mkdir()
    images = cut_images(whole / "corruptions")
    np.savez_compressed(OUT / "corruptions" / "frost.npz", **frost_texels(images))
    cut_image_statistics(whole / "corruptions")
    cut_waveforms(whole / "audio")
    cut_networks(whole / "audio")
    cut_views(whole / "traces")
    for name in ("frontends.npz", "metrics.npz", "metrics.json", "corruptions.json"):
        shutil.copyfile(whole / "audio" / name, OUT / "audio" / name)
    size = sum(path.stat().st_size for path in OUT.rglob("*.*") if path.suffix != ".py")
    print(f"{size / 1e6:.2f} MB in {OUT}")


def spread(side: int) -> NDArray[np.int64]:
    """Return the kept rows of an image, which are also its kept columns."""
    return np.linspace(0, side - 1, SPREAD[side]).round().astype(np.int64)


def cut_images(corruptions: Path) -> dict[str, Arrays]:
    """Keep two of four small images, and spread pixels of the large one."""
    files = {name: dict(np.load(corruptions / f"{name}.npz")) for name in ("cifar", "imagenet", "ccc224")}
    cut = {"cifar": {key: array[CIFAR_IMAGES] for key, array in files["cifar"].items() if not key.endswith("64")}}
    cut["cifar"] |= {key: files["cifar"][key] for key in ("inputs64", "labels64")}
    for name in ("imagenet", "ccc224"):
        cut[name] = {f"places_{len(spread(side))}": spread(side) for side in SPREAD}
        for key, array in files[name].items():
            cut[name][key] = array if key == "input" else array[np.ix_(spread(len(array)), spread(len(array)))]
    for name, arrays in cut.items():
        np.savez_compressed(OUT / "corruptions" / f"{name}.npz", **arrays)
    return cut


def frost_texels(images: dict[str, Arrays]) -> Arrays:
    """Return the texture values that explain the recorded frost at every severity, zero where no pixel is kept.

    The photographs of ice are not shipped. With one seed for all calls they were cropped at one place, so each
    recorded pixel is `int(image weight * pixel + ice weight * texel)`, with the same texel at every severity.
    """
    small, large = np.zeros((32, 32, 3), np.uint8), np.zeros((224, 224, 3), np.uint8)
    seen = {"32": np.ones((256, 32, 32, 3), bool), "224": np.ones((256, 224, 224, 3), bool)}
    for name, arrays in images.items():
        family = "32" if name == "cifar" else "224"
        inputs = arrays["inputs"] if name == "cifar" else images["imagenet"]["input"][None]
        for key in (key for key in arrays if key.startswith("frost")):
            of_image, of_ice, _ = CORRUPTIONS["frost"].quantities(float(key.rpartition("_s")[2]), family)
            recorded = arrays[key].reshape(-1, *arrays[key].shape[-3:])
            pixels = arrays.get(f"places_{recorded.shape[1]}", np.arange(recorded.shape[1]))
            for image, expected in zip(inputs, recorded, strict=True):
                for texel in range(256):
                    blended = np.clip(of_image * image[np.ix_(pixels, pixels)] + of_ice * float(texel), 0, 255)
                    seen[family][texel][np.ix_(pixels, pixels)] &= blended.astype(np.uint8) == expected
    for texels, family in ((small, "32"), (large, "224")):
        if not seen[family].any(axis=0).all():
            raise ValueError(f"no texture explains the recorded frost of family {family}; a weight must be wrong")
        texels[:] = seen[family].argmax(axis=0)
    return {"cifar": small, "imagenet": large}


def cut_image_statistics(corruptions: Path) -> None:
    """Keep the statistics of the small images; those of the large ones need 64 photographs."""
    statistics = json.loads((corruptions / "stats.json").read_text())
    text = json.dumps({key: statistics[key] for key in ("note", "cifar") if key in statistics}, indent=1)
    (OUT / "corruptions" / "stats.json").write_text(text + "\n")


def cut_waveforms(audio: Path) -> None:
    """Keep every fourth value, but whole waveforms in 16 bits where a test needs their spectrum or their power."""
    cut: Arrays = {}
    for key, array in np.load(audio / "corruptions.npz").items():
        if key.startswith("psh_"):
            if np.abs(array).max() >= 1:
                raise ValueError(f"{key} does not fit into 16 bits")
            cut[key] = np.rint(array * 2**15).astype(np.int16)
        elif key in ("signal", "noise"):
            cut[key] = array
        elif key != "noise2":  # which no recorded mixture drew
            cut[key] = array[::SAMPLES]
    np.savez_compressed(OUT / "audio" / "corruptions.npz", **cut)


def cut_networks(audio: Path) -> None:
    """Keep the weights, inputs and outputs of the small networks that the tests build."""
    shutil.copyfile(audio / "amaut_small.safetensors", OUT / "audio" / "amaut_small.safetensors")
    unused = re.compile(r"three_stage_input2|cls_tal|features256|logits_train")
    arrays = {key: array for key, array in np.load(audio / "amaut_small.npz").items() if not unused.search(key)}
    np.savez_compressed(OUT / "audio" / "amaut_small.npz", **arrays)
    facts = json.loads((audio / "amaut_small.json").read_text())
    (OUT / "audio" / "amaut_small.json").write_text(json.dumps({"adapt3": facts["adapt3"]}, indent=1) + "\n")


def cut_views(traces: Path) -> None:
    """Keep the first images and draws of each augmentation pipeline."""
    facts = json.loads((traces / "augment.json").read_text())
    facts["draws"] = {kind: draws[:VIEW_SEEDS] for kind, draws in facts["draws"].items()}
    recorded = np.load(traces / "augment.npz")
    keys = [f"{kind}_{draw['seed']}" for kind, draws in facts["draws"].items() for draw in draws]
    np.savez_compressed(OUT / "traces" / "augment.npz", **{key: recorded[key][:VIEW_IMAGES] for key in keys})
    (OUT / "traces" / "augment.json").write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
