"""Small networks with random weights from every family, for tests: 33 architectures.

Real weights cannot be downloaded where the tests run, so each family is built at a small size, and its running
statistics are drawn at random: with the defaults of 0 and 1 a layer that ignores them would go unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import torch
from fake_torchvision import FrozenBatchNorm2d, import_timm
from torch import Tensor, nn

from holdfast.models.base import seeded_weights

CLASSES = 7


@dataclass(frozen=True)
class Architecture:
    """How to build a network, and the shape of one of its inputs."""

    build: Callable[[], nn.Module]
    shape: tuple[int, ...] = (3, 32, 32)
    output: Any = None


def timm(name: str, size: int = 32, **options: Any) -> Architecture:
    """Return a network of timm."""

    def build() -> nn.Module:
        network: nn.Module = import_timm().create_model(name, num_classes=CLASSES, **options)
        return network

    return Architecture(build, (3, size, size))


def hugging_face(kind: str, shape: tuple[int, ...], **options: Any) -> Architecture:
    """Return a network of transformers, by the name of its class."""

    def build() -> nn.Module:
        transformers = pytest.importorskip("transformers", reason="pip install 'holdfast[hf]'")
        network = getattr(transformers, kind)
        made: nn.Module = network(network.config_class(num_labels=CLASSES, **options))
        return made

    return Architecture(build, shape)


def chain(*layers: nn.Module) -> nn.Module:
    """Return layers for RGB images, then mean pooling and a linear layer."""
    return nn.Sequential(nn.Conv2d(3, 8, 3), *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, CLASSES))


class ChannelsLast(nn.Module):
    """A layer norm over the channels of maps."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)

    def forward(self, maps: Tensor) -> Tensor:
        normalised: Tensor = self.norm(maps.movedim(1, -1)).movedim(-1, 1)
        return normalised


class Returning(nn.Module):
    """A network that returns its logits inside something else."""

    def __init__(self, wrap: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.network, self.wrap = chain(nn.BatchNorm2d(8), nn.ReLU()), wrap

    def forward(self, inputs: Tensor) -> object:
        return self.wrap(self.network(inputs))


def as_mapping(logits: Tensor) -> object:
    """Return logits beside something else, by name."""
    return {"features": logits * 2, "scores": logits}


SPEECH = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "conv_dim": (8, 8),
    "conv_stride": (5, 4),
    "conv_kernel": (10, 8),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
    "classifier_proj_size": 8,
}
TOKENS = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}

ARCHITECTURES = {
    "resnet": timm("resnet10t"),
    "resnext": timm("resnext50_32x4d", layers=(1, 1, 1, 1), channels=(64, 64, 64, 64)),
    "wide resnet": timm("wide_resnet50_2", layers=(1, 1, 1, 1), channels=(16, 16, 32, 32)),
    "resnetv2": timm("resnetv2_50", layers=(1, 1, 1, 1), channels=(16, 16, 32, 32), stem_chs=8),
    "evonorm": timm("test_efficientnet_evos"),
    "efficientnet": timm("efficientnet_b0"),
    "mobilenetv3": timm("mobilenetv3_small_050"),
    "mobilenetv2": timm("mobilenetv2_035"),
    "regnet": timm("regnetx_002"),
    "regnety": timm("regnety_002"),
    "densenet": timm("densenet121", block_config=(1, 1, 1, 1), growth_rate=8),
    "vgg without norm": Architecture(
        lambda: nn.Sequential(
            *(nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)) for a, b in ((3, 8), (8, 8))),
            nn.Flatten(),
            nn.Linear(8 * 64, CLASSES),
        )
    ),
    "convnext": timm("convnext_atto", depths=(1, 1, 1, 1), dims=(8, 8, 16, 16)),
    "convnextv2": timm("convnextv2_atto", depths=(1, 1, 1, 1), dims=(8, 8, 16, 16)),
    "vit": timm("vit_tiny_patch16_224", img_size=32, embed_dim=24, depth=2, num_heads=2),
    "deit": timm("deit_tiny_distilled_patch16_224", img_size=32, embed_dim=24, depth=2, num_heads=2),
    "swin": timm("swin_tiny_patch4_window7_224", img_size=56, size=56, embed_dim=12, depths=(1, 1), num_heads=(2, 2)),
    "mlp-mixer": Architecture(lambda: import_timm().models.MlpMixer(CLASSES, 32, embed_dim=16, num_blocks=2)),
    "maxvit": timm(
        "maxvit_rmlp_pico_rw_256", size=64, img_size=64, embed_dim=(32, 32, 32, 32), depths=(1, 1, 1, 1), stem_width=8
    ),
    "repvgg": timm("repvgg_a0"),
    "hf vit": hugging_face("ViTForImageClassification", (3, 32, 32), image_size=32, patch_size=8, **TOKENS),
    "hf resnet": hugging_face(
        "ResNetForImageClassification", (3, 32, 32), embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1]
    ),
    "hf convnext": hugging_face(
        "ConvNextForImageClassification", (3, 32, 32), hidden_sizes=[8, 16], depths=[1, 1], num_stages=2
    ),
    "hf mobilenetv2": hugging_face("MobileNetV2ForImageClassification", (3, 32, 32), depth_multiplier=0.1),
    "hf ast": hugging_face("ASTForAudioClassification", (64, 16), max_length=64, num_mel_bins=16, **TOKENS),
    "hf wav2vec2": hugging_face("Wav2Vec2ForSequenceClassification", (1600,), **SPEECH),
    "hf hubert": hugging_face("HubertForSequenceClassification", (1600,), **SPEECH),
    "cnn with layer norm": Architecture(lambda: chain(ChannelsLast(8), nn.ReLU())),
    "cnn with group norm": Architecture(lambda: chain(nn.GroupNorm(2, 8), nn.ReLU())),
    "frozen batch norm": Architecture(lambda: chain(FrozenBatchNorm2d(8), nn.ReLU(), nn.BatchNorm2d(8))),
    "sync batch norm": Architecture(lambda: chain(nn.SyncBatchNorm(8), nn.ReLU())),
    "mapping output": Architecture(lambda: Returning(as_mapping), output="scores"),
    "no norm": Architecture(lambda: chain(nn.ReLU())),
}


@cache  # to be copied, not changed
def network(name: str) -> nn.Module:
    """Return an architecture with random weights, none of them 0, and random running statistics, in eval mode."""
    with seeded_weights(0):
        made = ARCHITECTURES[name].build().eval()
        for parameter in made.parameters():
            if (
                not parameter.any()
            ):  # some heads and last scales of residual branches start at 0 and hide what is before
                nn.init.normal_(parameter, 0, 0.1)
        for part in made.modules():
            for buffer_name, buffer in part.named_buffers(recurse=False):
                if buffer_name == "running_mean":
                    buffer.normal_(0, 0.1)
                if buffer_name == "running_var":
                    buffer.uniform_(0.5, 1.5)
    return made


def inputs(name: str, samples: int = 4) -> Tensor:
    """Return random inputs in [0, 1], the same every time."""
    return torch.rand(samples, *ARCHITECTURES[name].shape, generator=torch.Generator().manual_seed(1))
