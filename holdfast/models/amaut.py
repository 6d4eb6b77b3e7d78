"""AMAuT: convolutions over time turn mel bands into tokens for a transformer (Shao et al., 2025)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from holdfast.audio import CLIPS, version_named
from holdfast.models.base import MODELS, with_weights
from holdfast.models.checkpoint import read_checkpoint
from holdfast.models.mel import LogMel
from holdfast.models.residual1d import stages, stem

NORM_EPS = 1e-6
OFFICIAL_NAMES = {  # parts of the names in the official weights -> ours
    "embedding.restnet.root": "tokenizer.stem",
    "embedding.restnet.layers": "tokenizer.stages",
    "embedding.patch_embedding": "tokenizer.projection",
    "downsample": "shortcut.0",
    "ds_gn": "shortcut.1",
    "cls_token": "class_token",
    "pos_embed": "positions",
    "tf_norm": "norm",
    "attention.q": "attention.query",
    "attention.k": "attention.key",
    "attention.v": "attention.value",
    "attention.o": "attention.out",
    "ffn.fc1": "mlp.0",
    "ffn.fc2": "mlp.2",
    "head.fc1": "head.wide",
    "head.fc2": "head.narrow",
    "head.bn2": "head.norm",
    "head.fc3": "head.classifier",
    "head.fc.": "head.classifier.",
}


class Tokenizer(nn.Module):
    """Convolutions over time that turn mel bands into few wide tokens."""

    def __init__(self, mels: int, width: int, extra_blocks: Sequence[int], token_width: int) -> None:
        super().__init__()
        self.stem = stem(mels, width)
        self.stages = stages(width, extra_blocks)
        self.projection = nn.Conv1d(4 * width * 2 ** (len(extra_blocks) - 1), token_width, 1)

    def forward(self, spectrogram: Tensor) -> Tensor:
        """Return tokens, (batch, tokens, width)."""
        tokens: Tensor = self.projection(self.stages(self.stem(spectrogram)))
        return tokens.transpose(1, 2)


class MelAttention(nn.Module):
    """Multi-head self-attention (Vaswani et al., NeurIPS 2017)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return tokens after self-attention, (batch, tokens, width)."""
        query, key, value = (
            part(tokens).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        mixed: Tensor = self.out(F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))
        return mixed


class EncoderLayer(nn.Module):
    """Attention after a layer norm, then a perceptron without one.

    As in the official code, the second norm exists but its output is not used; the paper shows a pre-norm layer.
    """

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width, NORM_EPS)
        self.attention = MelAttention(width, heads)
        self.ffn_norm = nn.LayerNorm(width, NORM_EPS)
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the next tokens, (batch, tokens, width)."""
        tokens = tokens + self.attention(self.attention_norm(tokens))
        change: Tensor = self.mlp(tokens)
        return tokens + change


class Backbone(nn.Module):
    """A transformer over the tokens of a spectrogram, between a class token and a tail token."""

    def __init__(self, version: AMAuTVersion, frames: int) -> None:
        super().__init__()
        width = version.token_width
        self.tokenizer = Tokenizer(version.mels, version.width, version.extra_blocks, width)
        count = token_count(frames, len(version.extra_blocks))
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.tail_token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.empty(1, count + 2, width))
        nn.init.trunc_normal_(self.positions, std=0.02)
        self.dropout = nn.Dropout(version.dropout)
        layers = (EncoderLayer(width, version.heads, version.hidden) for _ in range(version.depth))
        self.layers = nn.Sequential(*layers)
        self.norm = nn.LayerNorm(width, NORM_EPS)

    def forward(self, spectrogram: Tensor) -> Tensor:
        """Return tokens, the class token first and the tail token last, (batch, tokens + 2, width)."""
        tokens = self.tokenizer(spectrogram)
        first, last = (token.expand(tokens.shape[0], -1, -1) for token in (self.class_token, self.tail_token))
        tokens = self.dropout(torch.cat([first, tokens, last], dim=1) + self.positions)
        read: Tensor = self.norm(self.layers(tokens))
        return read


class MeanHead(nn.Module):
    """Two linear layers on the mean of all tokens, without a nonlinearity as in the official code."""

    def __init__(self, token_width: int, wide: int, narrow: int, num_classes: int) -> None:
        super().__init__()
        self.wide = nn.Linear(token_width, wide)
        self.narrow = nn.Linear(wide, narrow)
        self.norm = nn.BatchNorm1d(narrow, NORM_EPS)
        self.classifier = weight_norm(nn.Linear(narrow, num_classes))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits, (batch, classes)."""
        logits: Tensor = self.classifier(self.norm(self.narrow(self.wide(tokens.mean(1)))))
        return logits


class EndsHead(nn.Module):
    """A convolution that merges the class token and the tail token, and a classifier."""

    def __init__(self, token_width: int, num_classes: int) -> None:
        super().__init__()
        self.merge = nn.Conv1d(2, 1, 15, padding=7)
        self.norm = nn.LayerNorm(token_width)
        self.classifier = nn.Linear(token_width, num_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits, (batch, classes)."""
        merged = self.merge(tokens[:, [0, -1]]).squeeze(1)
        logits: Tensor = self.classifier(self.norm(merged))
        return logits


@dataclass(frozen=True)
class AMAuTVersion:
    """One configuration: front-end, convolutions and head; all published ones share the transformer."""

    sample_rate: int  # of the clips, in Hz
    samples: int  # length of a clip
    num_classes: int  # number of outputs
    mels: int  # bands of the spectrogram
    fft: int  # samples of one transform
    window: int  # samples of one frame
    hop: int  # samples between frames
    width: int  # channels of the convolutions
    extra_blocks: tuple[int, ...]  # convolution blocks after the first, stage by stage
    frames: int | None = None  # of the spectrogram; None: as many as the clip has
    head: Literal["mean", "ends"] = "mean"  # mean of all tokens, or the first and the last
    head_widths: tuple[int, int] = (2048, 256)  # hidden features of the head
    token_width: int = 768  # features of a token
    depth: int = 12  # layers of the transformer
    heads: int = 12  # of its attention
    hidden: int = 3072  # features between the two linear maps of a layer
    dropout: float = 0.15  # share of features set to zero in training


AMAUT_VERSIONS = {
    "sc2": AMAuTVersion(*CLIPS["sc2"], 35, mels=80, fft=1024, window=400, hop=155, width=128, extra_blocks=(6, 12)),
    "rs": AMAuTVersion(*CLIPS["rs"], 37, mels=80, fft=1024, window=400, hop=155, width=128, extra_blocks=(6, 8)),
    "us8": AMAuTVersion(*CLIPS["us8"], 10, mels=64, fft=2048, window=800, hop=300, width=64, extra_blocks=(6, 4, 8)),
    "vs": AMAuTVersion(
        *CLIPS["vs"],
        6,
        mels=64,
        fft=1024,
        window=400,
        hop=154,
        frames=1040,
        width=64,
        extra_blocks=(6, 4, 8),
        head="ends",
    ),
}
# The version for UrbanSound8K was first trained on the thirteen scenes of CochlScene.
AMAUT_VERSIONS["cochlscene"] = replace(AMAUT_VERSIONS["us8"], num_classes=13)


class AMAuT(nn.Module):
    """The audio transformer of Shao et al. (arXiv 2510.19368) in one of its versions, for waveforms of one length.

    Official weights load with `load_official`.
    """

    def __init__(self, version: AMAuTVersion) -> None:
        super().__init__()
        front_end = LogMel(
            sample_rate=version.sample_rate,
            samples=version.samples,
            mels=version.mels,
            fft=version.fft,
            window=version.window,
            hop=version.hop,
            frames=version.frames,
        )
        self.front_end: nn.Module = front_end
        self.backbone = Backbone(version, front_end.frames)
        self.head: nn.Module = (
            MeanHead(version.token_width, *version.head_widths, version.num_classes)
            if version.head == "mean"
            else EndsHead(version.token_width, version.num_classes)
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits for waveforms in [-1, 1], (batch, samples)."""
        logits: Tensor = self.head(self.backbone(self.front_end(inputs)))
        return logits

    def load_official(self, weights: Mapping[str, Tensor]) -> None:
        """Load weights with the names of the official code, prefixed with `backbone.` and `head.`.

        The official code saves the two modules separately: `{**{f"backbone.{name}": …}, **{f"head.{name}": …}}`.
        """
        self.load_state_dict({_own_name(name): tensor for name, tensor in weights.items()})


def token_count(frames: int, stages: int) -> int:
    """Return the number of tokens that the convolutions make from a number of frames.

    >>> token_count(104, 2), token_count(589, 3)
    (13, 37)
    """
    count = ((frames - 2) // 2 + 1 - 2) // 2 + 1  # the stem: kernels 14 and 6 with a padding of 6 and 2
    for _ in range(stages - 1):
        count = (count - 1) // 2 + 1
    return count


@MODELS.register("amaut")
def amaut(*, version: str, weights: str | None = None, seed: int = 0) -> AMAuT:
    """AMAuT as published for "speech_commands", "reefset", "urbansound8k", "cochlscene" or "vocalsound".

    It has 97 to 103 million weights. They come from a safetensors file; without one they are random, to be trained.
    """
    chosen = AMAUT_VERSIONS[version_named(version, AMAUT_VERSIONS, "AMAuT")]
    network = with_weights(lambda: AMAuT(chosen), seed)
    if weights is not None:
        stored = read_checkpoint(weights)
        load = network.load_official if "backbone.cls_token" in stored else network.load_state_dict
        load(stored)
    return network


def _own_name(name: str) -> str:
    for theirs, ours in OFFICIAL_NAMES.items():
        name = name.replace(theirs, ours)
    return name
