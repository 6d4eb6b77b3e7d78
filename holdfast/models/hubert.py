"""HuBERT with the heads of DHAuDS: a speech network on raw waveforms with a classifier on its pooled frames."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from holdfast.models.amaut import MeanHead
from holdfast.models.base import predicting
from holdfast.models.mel import check_clips
from holdfast.models.residual1d import Bottleneck, stem
from holdfast.records import InputSpec

HUBERT_RATE = 16_000

# Classes, and blocks per stage of a convolutional head; without stages the head takes the mean of all frames.
HUBERT_VERSIONS: dict[str, tuple[int, tuple[int, ...]]] = {
    "sc2": (35, ()),
    "rs": (37, ()),
    "us8": (10, (2,)),
    "vs": (6, (2, 2)),
}


class ConvolutionHead(nn.Module):
    """Convolutions that reduce the number of frames, then two linear layers on their mean.

    As in the official code, there is only a layer norm between the linear layers.
    """

    def __init__(self, width: int, blocks: Sequence[int], num_classes: int) -> None:
        super().__init__()
        self.stem = stem(width, width)
        stages: list[Bottleneck] = []
        for count in blocks:
            wide, middle = 2 * width, width // 2
            stages += [Bottleneck(width, wide, middle, 2), *(Bottleneck(wide, wide, middle) for _ in range(count - 1))]
            stages.append(Bottleneck(wide, width, middle))
        self.stages = nn.Sequential(*stages)
        self.narrow = nn.Linear(width, width // 2)
        self.norm = nn.LayerNorm(width // 2)
        self.classifier = nn.Linear(width // 2, num_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits, (batch, classes), for frames (batch, frames, width)."""
        maps = self.stages(self.stem(tokens.transpose(1, 2)))
        logits: Tensor = self.classifier(self.norm(self.narrow(maps.mean(2))))
        return logits


class HuBERT(nn.Module):
    """HuBERT and a head, for clips of one sample rate and length (Hsu et al., 2021; Shao et al., arXiv 2511.18421).

    Waveforms are not normalised. Other rates, 44.1 kHz in "us8", are resampled to 16 kHz inside the network, so that
    all networks use the same streams; the official code adapts to audio that was corrupted at 16 kHz.

    Args:
        backbone: HuBERT of `transformers`.
        width: features of the backbone.
        clip: sample rate in Hz and length in samples.
        num_classes: number of outputs.
        blocks: convolution blocks of the head; empty: linear layers only.
        head_widths: hidden features of the head.
    """

    def __init__(
        self,
        backbone: nn.Module,
        width: int,
        clip: tuple[int, int],
        num_classes: int,
        blocks: Sequence[int] = (),
        head_widths: tuple[int, int] = (2048, 256),
    ) -> None:
        super().__init__()
        rate, samples = clip
        self.input_spec = InputSpec("audio", (samples,), rate)
        self.samples = samples * HUBERT_RATE // rate
        self.backbone = backbone
        self.head: nn.Module = (
            ConvolutionHead(width, blocks, num_classes) if blocks else MeanHead(width, *head_widths, num_classes)
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits for waveforms in [-1, 1], (batch, samples)."""
        check_clips(inputs, self.input_spec)
        with predicting(self.backbone):
            frames: Tensor = self.backbone(resampled(inputs, self.samples)).last_hidden_state
        logits: Tensor = self.head(frames)
        return logits


def resampled(inputs: Tensor, samples: int) -> Tensor:
    """Resample waveforms to `samples` samples of the same duration; frequencies below both limits are kept.

    >>> wave = torch.sin(torch.arange(441.0) / 441 * 2 * torch.pi * 5)[None]
    >>> torch.allclose(resampled(wave, 160), torch.sin(torch.arange(160.0) / 160 * 2 * torch.pi * 5)[None], atol=1e-4)
    True
    """
    if inputs.shape[-1] == samples:
        return inputs
    kept = torch.fft.rfft(inputs)[..., : samples // 2 + 1]
    waveform: Tensor = torch.fft.irfft(kept, samples) * (samples / inputs.shape[-1])
    return waveform
