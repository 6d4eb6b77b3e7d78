"""Audio networks of Hugging Face, in the one file that imports `transformers`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.audio import short_name
from holdfast.models.base import MODELS, load_weights, predicting, seeded_weights
from holdfast.models.hubert import HUBERT_VERSIONS, HuBERT
from holdfast.records import InputSpec
from holdfast.registry import UnknownNameError, nearest

__all__ = ["HuggingFaceAudio", "hubert", "hugging_face_audio"]


@MODELS.register("hubert")
def hubert(
    *,
    version: str,
    weights: str | None = None,
    pretrained: str | None = None,
    config: dict[str, Any] | None = None,
    seed: int = 0,
) -> HuBERT:
    """HuBERT-base with the head of DHAuDS for "sc2", "rs", "us8" or "vs" (96 to 120 million weights).

    `weights` is a safetensors file of the whole network, `pretrained` a folder or name of the backbone alone, such as
    facebook/hubert-base-ls960, with a random head to be trained; `config` changes the size. Needs the extra `hf`.
    """
    version = short_name(version)
    if version not in HUBERT_VERSIONS:
        raise UnknownNameError(f"unknown version {version!r} of HuBERT; {nearest(version, HUBERT_VERSIONS)}")
    transformers = _transformers()
    # No spectra are masked, as in the official code; dropout and dropped layers belong to its adaptation.
    options = {"mask_time_prob": 0.0, "mask_feature_prob": 0.0, "apply_spec_augment": False, "layerdrop": 0.05}
    with seeded_weights(seed):
        if pretrained is not None:
            backbone = transformers.HubertModel.from_pretrained(pretrained, **options, **(config or {}))
        else:
            backbone = transformers.HubertModel(transformers.HubertConfig(**options, **(config or {})))
        network = HuBERT(backbone, backbone.config.hidden_size, version)
    return network.eval() if weights is None else load_weights(network, Path(weights))


class HuggingFaceAudio(nn.Module):
    """An audio classifier of `transformers` behind its own feature extractor: what goes in is a waveform.

    Gradients reach the weights; they reach the waveform only where the extractor does no more than normalise it.
    """

    def __init__(self, network: nn.Module, extractor: Any, samples: int) -> None:
        super().__init__()
        self.network, self.extractor = network, extractor
        self.raw = type(extractor).__name__ == "Wav2Vec2FeatureExtractor"
        self.input_spec = InputSpec("audio", (samples,), int(extractor.sampling_rate))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits for waveforms in [-1, 1], (batch, samples)."""
        with predicting(self.network):
            logits: Tensor = self.network(self._features(inputs)).logits
        return logits

    def _features(self, inputs: Tensor) -> Tensor:
        if self.raw:
            if not self.extractor.do_normalize:
                return inputs
            var, mean = torch.var_mean(inputs, 1, correction=0, keepdim=True)
            return (inputs - mean) / (var + 1e-7).sqrt()
        clips = list(inputs.detach().float().cpu().numpy())
        made = self.extractor(clips, sampling_rate=self.extractor.sampling_rate, return_tensors="pt")
        found: Tensor = made[self.extractor.model_input_names[0]]
        return found.to(inputs)


@MODELS.register("hugging_face_audio")
def hugging_face_audio(*, model: str, seconds: float) -> HuggingFaceAudio:
    """Any audio classifier of Hugging Face by folder or name, for clips of so many seconds; needs the extra `hf`."""
    transformers = _transformers()
    try:
        with seeded_weights(0):
            network = transformers.AutoModelForAudioClassification.from_pretrained(model)
        extractor = transformers.AutoFeatureExtractor.from_pretrained(model)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{model} is no audio classifier that can be loaded ({error}); name a folder of one"
        ) from error
    return HuggingFaceAudio(network, extractor, round(seconds * extractor.sampling_rate)).eval()


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise ImportError("this network needs transformers: pip install holdfast[hf]") from error
    return transformers
