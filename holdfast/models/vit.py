"""A small vision transformer (Dosovitskiy et al., ICLR 2021) with mean pooling instead of a class token."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.models.normalised import Normalise


class Attention(nn.Module):
    """Multi-head self-attention (Vaswani et al., NeurIPS 2017)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return tokens after self-attention, (batch, tokens, width)."""
        query, key, value = self.qkv(tokens).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(query, key, value)  # (batch, heads, tokens, width / heads)
        mixed: Tensor = self.proj(seen.transpose(1, 2).flatten(2))
        return mixed


class EncoderBlock(nn.Module):
    """Attention, then a two-layer perceptron, each with a layer norm before it and a shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the next tokens, (batch, tokens, width)."""
        tokens = tokens + self.attention(self.norm1(tokens))
        change: Tensor = self.mlp(self.norm2(tokens))
        return tokens + change


class ViT(nn.Module):
    """A vision transformer for square images of one size.

    Args:
        size: pixels of a side of the image.
        patch: pixels of a side of a patch.
        width: features of a token.
        depth: number of layers.
        heads: of the attention.
        num_classes: number of outputs.
        mean: of each channel, subtracted from images in [0, 1].
        std: of each channel, by which they are divided.
    """

    def __init__(
        self,
        *,
        size: int = 32,
        patch: int = 4,
        width: int = 64,
        depth: int = 4,
        heads: int = 4,
        num_classes: int = 10,
        mean: Sequence[float] = (0.5, 0.5, 0.5),
        std: Sequence[float] = (0.25, 0.25, 0.25),
    ) -> None:
        super().__init__()
        self.normalise = Normalise(mean, std)
        self.patch_embed = nn.Conv2d(3, width, patch, patch)
        self.positions = nn.Parameter(0.02 * torch.randn(1, (size // patch) ** 2, width))
        self.blocks = nn.Sequential(*(EncoderBlock(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, num_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits for images in [0, 1], (batch, 3, size, size)."""
        patches = self.patch_embed(self.normalise(inputs)).flatten(2).transpose(1, 2)
        tokens = self.norm(self.blocks(patches + self.positions))
        logits: Tensor = self.head(tokens.mean(dim=1))
        return logits
