"""A network that nothing was tuned on, without labels: intervals hold its accuracy."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import holdfast
from holdfast.models import MODELS

IMAGES = Path(__file__).resolve().parents[3] / "shared" / "data" / "imagenet" / "samples.parquet"
BATCH = 20
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not IMAGES.exists(), reason="the ImageNet images are not part of the repository"),
]


@pytest.fixture(scope="module")
def network() -> nn.Module:
    pytest.importorskip("efficientnet_lite_pytorch")
    return MODELS["efficientnet_lite0"]().eval()


@pytest.fixture(scope="module")
def images() -> tuple[Tensor, Tensor]:
    rows = pytest.importorskip("pyarrow.parquet").read_table(IMAGES).to_pylist()
    chosen = [rows[index] for index in np.random.default_rng(0).permutation(len(rows))[: 7 * BATCH]]

    def pixels(content: bytes) -> Tensor:
        image = Image.open(io.BytesIO(content)).convert("RGB")
        left, top = (image.width - 224) // 2, (image.height - 224) // 2
        cut = np.array(image.crop((left, top, left + 224, top + 224)))
        return torch.from_numpy(cut).permute(2, 0, 1).float() / 255

    return torch.stack([pixels(row["image"]["bytes"]) for row in chosen]), torch.tensor([r["label"] for r in chosen])


def test_no_estimate_without_labels_excludes_the_accuracy(network: nn.Module, images: tuple[Tensor, Tensor]) -> None:
    inputs, labels = images
    noise = 0.15 * torch.randn(inputs.shape, generator=torch.Generator().manual_seed(0))
    stream = torch.cat([inputs[: 3 * BATCH], (inputs + noise).clamp(0, 1)[3 * BATCH : 6 * BATCH]])
    model = holdfast.guard(network, estimator="anchored")
    right: list[Tensor] = []
    for some, truth in zip(stream.split(BATCH), labels[: 6 * BATCH].split(BATCH), strict=True):
        step = model.step(some)
        right.append(step.logits.argmax(1) == truth)
        accuracy = float(torch.cat(right)[-64:].double().mean())
        for name, estimate in step.estimates.items():
            assert estimate.low is not None, (name, estimate)
            assert estimate.high is not None
            assert estimate.low - 0.05 <= accuracy <= estimate.high + 0.05, (name, estimate, accuracy)
