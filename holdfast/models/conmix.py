"""CoNMix++: a ResNet and a vision transformer on spectrograms as images (Shao et al., 2025)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from holdfast.audio import CLIPS, version_named
from holdfast.models.base import MODELS, with_weights
from holdfast.models.mel import check_clips, mel_decibels, mel_filters
from holdfast.models.residual1d import standardised
from holdfast.records import InputSpec

FFT = 1024
SIDE = 224
NORM_EPS = 1e-6


@dataclass(frozen=True)
class CoNMixVersion:
    """One configuration; all published ones have the sizes of R50+ViT-B/16."""

    sample_rate: int  # of the clips, in Hz
    samples: int  # length of a clip
    num_classes: int  # number of outputs
    mels: int  # bands of the spectrogram
    hop: int  # samples between frames
    width: int = 64  # channels of the first convolution
    blocks: tuple[int, int, int] = (3, 4, 9)  # residual blocks of each stage
    token_width: int = 768  # features of a token
    depth: int = 12  # layers of the transformer
    heads: int = 12  # of its attention
    hidden: int = 3072  # features between the two linear maps of a layer
    head_widths: tuple[int, int] = (2048, 256)  # hidden features of the head
    dropout: float = 0.1  # share of features set to zero in training


CONMIX_VERSIONS = {
    "sc2": CoNMixVersion(*CLIPS["sc2"], 35, mels=81, hop=200),
    "rs": CoNMixVersion(*CLIPS["rs"], 37, mels=123, hop=250),
}


class MelImage(nn.Module):
    """Turn waveforms into 224 × 224 images of three equal channels: decibels in HTK mel bands, standardised.

    As published, mean and deviation are those of the whole data set, also of a test set; here they are those of the
    batch, so that no prediction depends on later samples. `side` is larger while training, which crops the images.
    """

    side = SIDE
    hann: Tensor
    filters: Tensor

    def __init__(self, sample_rate: int, samples: int, mels: int, hop: int) -> None:
        super().__init__()
        self.input_spec = InputSpec("audio", (samples,), sample_rate)
        self.hop = hop
        self.register_buffer("hann", torch.hann_window(FFT), persistent=False)
        self.register_buffer("filters", mel_filters(mels, FFT, sample_rate, scale="htk"), persistent=False)

    @contextmanager
    def of_side(self, pixels: int) -> Iterator[None]:
        """Make images of another size inside the block."""
        before, self.side = self.side, pixels
        try:
            yield
        finally:
            self.side = before

    def forward(self, inputs: Tensor) -> Tensor:
        """Return images, (batch, 3, 224, 224)."""
        check_clips(inputs, self.input_spec)
        decibels = mel_decibels(inputs, self.hann, self.filters, FFT, self.hop).unsqueeze(1)
        pictures = F.interpolate(decibels, (self.side, self.side), mode="bilinear", align_corners=False)
        std, mean = torch.std_mean(pictures)
        return ((pictures - mean) / std.clamp_min(1e-6)).expand(-1, 3, -1, -1)


class StandardisedConv2d(nn.Conv2d):
    """A convolution without bias, with standardised filters."""

    def __init__(self, width_in: int, width: int, kernel: int, stride: int = 1) -> None:
        super().__init__(width_in, width, kernel, stride, kernel // 2, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        """Return the feature maps, (batch, channels, height, width)."""
        return F.conv2d(input, standardised(self.weight), None, self.stride, self.padding)


class ResidualBottleneck(nn.Module):
    """Three convolutions with group normalisation and a shortcut."""

    def __init__(self, width_in: int, width: int, stride: int = 1) -> None:
        super().__init__()
        middle = width // 4
        self.conv1 = StandardisedConv2d(width_in, middle, 1)
        self.norm1 = _group_norm(middle)
        self.conv2 = StandardisedConv2d(middle, middle, 3, stride)
        self.norm2 = _group_norm(middle)
        self.conv3 = StandardisedConv2d(middle, width, 1)
        self.norm3 = _group_norm(width)
        changes = width != width_in or stride > 1
        self.shortcut = nn.Sequential(
            *([StandardisedConv2d(width_in, width, 1, stride), nn.GroupNorm(width, width)] if changes else [])
        )

    def forward(self, maps: Tensor) -> Tensor:
        """Return the feature maps."""
        residual = F.relu(self.norm1(self.conv1(maps)))
        residual = F.relu(self.norm2(self.conv2(residual)))
        return F.relu(self.norm3(self.conv3(residual)) + self.shortcut(maps))


def _group_norm(width: int) -> nn.GroupNorm:
    return nn.GroupNorm(min(32, width), width, NORM_EPS)


class CoNMix(nn.Module):
    """The network of CoNMix++ (arXiv 2507.15523): ResNet, transformer without positions, mean of tokens, bottleneck.

    The published network also contains a segmentation decoder that is not used.
    """

    def __init__(self, version: CoNMixVersion) -> None:
        super().__init__()
        width, tokens = version.width, version.token_width
        self.front_end = MelImage(version.sample_rate, version.samples, version.mels, version.hop)
        self.stem = nn.Sequential(StandardisedConv2d(3, width, 7, 2), _group_norm(width), nn.ReLU(), nn.MaxPool2d(3, 2))
        stages, before = [], width
        for stage, count in enumerate(version.blocks):
            wide = 4 * width * 2**stage
            stages.append(ResidualBottleneck(before, wide, 2 if stage else 1))
            stages += [ResidualBottleneck(wide, wide) for _ in range(count - 1)]
            before = wide
        self.stages = nn.Sequential(*stages)
        self.projection = nn.Conv2d(before, tokens, 1)
        layer = nn.TransformerEncoderLayer(
            tokens,
            version.heads,
            version.hidden,
            version.dropout,
            "gelu",
            NORM_EPS,
            batch_first=True,
            norm_first=True,
        )
        self.encoder = nn.TransformerEncoder(
            layer, version.depth, nn.LayerNorm(tokens, NORM_EPS), enable_nested_tensor=False
        )
        self.wide = nn.Linear(tokens, version.head_widths[0])
        self.head = BottleneckHead(*version.head_widths, version.num_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits for waveforms in [-1, 1], (batch, samples)."""
        maps = self.projection(self.stages(self.stem(self.front_end(inputs))))
        tokens = self.encoder(maps.flatten(2).transpose(1, 2))
        logits: Tensor = self.head(self.wide(tokens.mean(1)))
        return logits


class BottleneckHead(nn.Module):
    """A bottleneck with batch normalisation, whose features give the pseudo-labels, and the classifier."""

    def __init__(self, wide: int, narrow: int, num_classes: int) -> None:
        super().__init__()
        self.narrow = nn.Linear(wide, narrow)
        self.norm = nn.BatchNorm1d(narrow)
        self.classifier = weight_norm(nn.Linear(narrow, num_classes))

    def forward(self, features: Tensor) -> Tensor:
        """Return logits, (batch, classes)."""
        logits: Tensor = self.classifier(self.norm(self.narrow(features)))
        return logits


@MODELS.register("conmix")
def conmix(*, version: str, weights: str | None = None, seed: int = 0) -> CoNMix:
    """The network of CoNMix++ as published for "speech_commands" or "reefset" (R50+ViT-B/16).

    Its weights come from a safetensors file; without one they are random, to be trained.
    """
    chosen = CONMIX_VERSIONS[version_named(version, CONMIX_VERSIONS, "CoNMix++")]
    return with_weights(lambda: CoNMix(chosen), seed, weights)
