"""Write the first files of your own method: its code, a test of its contracts, and a suite that compares it."""

from __future__ import annotations

import keyword
from pathlib import Path

from holdfast.machine.folders import made, write_whole
from holdfast.recipes import recipe_names

METHOD = '''\
"""NAME: minimise the entropy of confident predictions."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from holdfast.blocks.losses import entropy
from holdfast.methods import METHODS, Method
from holdfast.models import Classifier


@METHODS.register("NAME")
class CLASS(Method):
    """Minimise the entropy of predictions, each weighted by its confidence."""

    citation = ""  # Author et al., Venue Year
    use_when = ""  # one sentence for `holdfast list`
    fails_when = ""
    meanings: ClassVar = {"exponent": "how much confident predictions count; 0: all alike, as in TENT"}

    def __init__(self, model: Classifier, *, exponent: float = 1.0, **learning: Any) -> None:
        super().__init__(model, **learning)  # optimizer, lr, momentum, weight_decay and seed
        if exponent < 0:
            raise ValueError(f"exponent must be at least 0, got {exponent}")
        self.exponent = exponent

    def loss(self, inputs: Tensor, logits: Tensor) -> Tensor:
        """Return the loss of a batch, by whose gradient the normalisation layers are trained."""
        confidence = logits.detach().softmax(dim=1).amax(dim=1)
        weights = confidence**self.exponent
        return (weights * entropy(logits)).sum() / weights.sum()
'''
TEST = '''\
"""NAME keeps every contract of a method: reset, saving, bad inputs, failed steps and more."""

from __future__ import annotations

from pathlib import Path

import torch

import holdfast
from holdfast.models import tiny_resnet
from holdfast.testing import check_method

holdfast.import_file(Path(__file__).parent / "NAME.py")


def test_NAME_keeps_the_contracts_of_a_method() -> None:
    batches = torch.rand(3, 8, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    check_method("NAME", tiny_resnet(), list(batches))


def test_exponent_zero_is_tent() -> None:
    batches = torch.rand(3, 8, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    mine = holdfast.adapt("digits_resnet", "NAME", exponent=0.0, optimizer="adam", lr=1e-3)
    tent = holdfast.adapt("digits_resnet", "tent", optimizer="adam", lr=1e-3)
    for batch in batches:
        torch.testing.assert_close(mine(batch), tent(batch))
'''
SUITE = """\
name: NAME
summary: NAME beside the source, TENT and the default of holdfast.
imports: [NAME.py]
models: [digits_resnet]
seeds: [0, 1, 2]
batch_size: 64
source: {name: digits, split: train, samples: 512}
streams:
  - name: continual
    data: {name: digits, split: test}
    family: "224"  # the severities for 32 px hardly affect eight-pixel digits
    severity: 3
    samples_per_domain: 256
    corruptions: [gaussian_noise, defocus_blur, contrast, jpeg_compression]
  - name: correlated
    data: {name: digits, split: test}
    family: "224"
    severity: 3
    samples_per_domain: 256
    corruptions: [gaussian_noise, defocus_blur, contrast, jpeg_compression]
recipes: [source, tent, blend, NAME]
"""


def new_method(name: str, folder: Path) -> list[Path]:
    """Write NAME.py, test_NAME.py and NAME.yaml into a folder, and return their paths; existing files are kept."""
    if not name.isidentifier() or keyword.iskeyword(name) or name != name.lower():
        raise ValueError(f"a method is named by lower-case letters, digits and _, got {name!r}; write e.g. margin_tent")
    if name in recipe_names():
        raise ValueError(f"there is a method {name!r} already; choose another name")
    contents = {f"{name}.py": METHOD, f"test_{name}.py": TEST, f"{name}.yaml": SUITE}
    existing = [file for file in contents if (folder / file).exists()]
    if existing:
        raise ValueError(f"{folder / existing[0]} exists already; choose another name or --out")
    words = name.split("_")
    made(folder)
    for file, text in contents.items():
        filled = text.replace("NAME", name).replace("CLASS", "".join(map(str.capitalize, words)))
        write_whole(folder / file, filled.encode())
    return [folder / file for file in contents]
