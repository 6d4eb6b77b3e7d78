"""A HuBERT of two small layers with random weights, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

SMALL_HUBERT: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "conv_dim": (8, 8),
    "conv_kernel": (80, 8),
    "conv_stride": (40, 8),
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
}


def save_hubert(folder: Path) -> tuple[Any, Any]:
    """Save a classifier of five classes with its feature extractor, as Hugging Face does, and return both."""
    transformers = pytest.importorskip("transformers")
    config = transformers.HubertConfig(**SMALL_HUBERT, num_labels=5, classifier_proj_size=8)
    network = transformers.HubertForSequenceClassification(config).eval()
    extractor = transformers.Wav2Vec2FeatureExtractor(sampling_rate=16_000, do_normalize=True)
    network.save_pretrained(folder)
    extractor.save_pretrained(folder)
    return network, extractor
