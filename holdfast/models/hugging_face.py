"""Image and audio classifiers of Hugging Face, in the one file that imports `transformers`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.audio import CLIPS, version_named
from holdfast.machine.extras import extra
from holdfast.models.base import MODELS, predicting, seeded_weights, with_weights
from holdfast.models.hubert import HUBERT_VERSIONS, HuBERT
from holdfast.models.normalised import Normalised
from holdfast.models.preprocessing import Preprocessing
from holdfast.records import InputSpec

SMALL: dict[str, Any] = {  # a hundredth of HuBERT-base: the same strides, fewer and narrower layers
    "hidden_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 192,
    "conv_dim": [64] * 7,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}

RESAMPLING = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}  # Pillow's numbers


@MODELS.register("hf")
def hugging_face(model: str, *, seconds: float | None = None) -> nn.Module:
    """An image or audio classifier of Hugging Face by folder or name: `hf:microsoft/resnet-50`; needs the extra `hf`.

    Images come in [0, 1], waveforms in [-1, 1]. `seconds` is the length of audio clips: by default that of the
    network's spectrogram, or 1 second for networks on raw waveforms.
    """
    transformers = _transformers()
    with _loading(model, "a model of the hub"):
        config = transformers.AutoConfig.from_pretrained(model)
    architecture = (config.architectures or [""])[0]
    if architecture.endswith("ForImageClassification"):
        with seeded_weights(0):
            network = transformers.AutoModelForImageClassification.from_pretrained(model)
        return Normalised.behind(network.eval(), _image_preprocessing(model, transformers))
    if architecture.endswith(("ForAudioClassification", "ForSequenceClassification")):
        return hugging_face_audio(model=model, seconds=seconds)
    raise ValueError(f"{model} is a {architecture or 'network without a head'}; name an image or audio classifier")


@MODELS.register("clip")
def clip(
    model: str, *, class_names: Sequence[str] | str, templates: Sequence[str] = ("a photo of a {}.",)
) -> nn.Module:
    """CLIP or SigLIP of Hugging Face as a classifier: `clip:openai/clip-vit-base-patch16`; needs the extra `hf`.

    The embeddings of the class names, averaged over all templates, are its last layer, so that every method works with
    it; underscores in names become spaces. `class_names` may be a text file with a name in each line.

    Args:
        model: folder or name of a CLIP or SigLIP.
        class_names: one for each class, as written in the sentences.
        templates: sentences with `{}` for the class name; their embeddings are averaged.
    """
    transformers = _transformers()
    names = Path(class_names).read_text().splitlines() if isinstance(class_names, str) else list(class_names)
    if len(names) < 2 or not templates or not all("{}" in template for template in templates):
        raise ValueError(
            f"a classifier needs two class names and templates with {{}}, got {len(names)} names and {list(templates)}"
        )
    with _loading(model, "a model of the hub"):
        whole = transformers.AutoModel.from_pretrained(model).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    if not hasattr(whole, "get_text_features") or not hasattr(whole, "vision_model"):
        raise ValueError(f"{model} is a {type(whole).__name__}, which has no embeddings of text; name a CLIP or SigLIP")
    embeddings = _text_embeddings(whole, tokenizer, names, templates)
    with seeded_weights(0):
        classifier = ClipClassifier(whole, embeddings).eval()
    return Normalised.behind(classifier, _image_preprocessing(model, transformers))


class ClipClassifier(nn.Module):
    """The image tower of CLIP or SigLIP, and the embeddings of class names as its last layer (Radford et al., 2021).

    The logits are s · cos(image, name) + b, with the scale s and the bias b of the trained model.

    Args:
        model: a CLIP or SigLIP of `transformers`.
        embeddings: of the class names, (classes, features).
    """

    def __init__(self, model: Any, embeddings: Tensor) -> None:
        super().__init__()
        self.vision = model.vision_model
        self.projection = getattr(model, "visual_projection", nn.Identity())  # SigLIP has none
        self.head = nn.Linear(embeddings.shape[1], len(embeddings))
        bias = getattr(model, "logit_bias", torch.zeros(1))  # CLIP has none
        with torch.no_grad():
            self.head.weight.copy_(model.logit_scale.exp() * embeddings)
            self.head.bias.copy_(bias.expand(len(embeddings)))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits for normalised images."""
        features = self.projection(self.vision(pixel_values=inputs).pooler_output)
        logits: Tensor = self.head(nn.functional.normalize(features, dim=1))
        return logits


@torch.no_grad()
def _text_embeddings(model: Any, tokenizer: Any, names: Sequence[str], templates: Sequence[str]) -> Tensor:
    """Return the mean direction of the templates of each name, (names, width)."""
    # SigLIP was trained on texts of full length; CLIP masks what is shorter.
    padding: bool | str = "max_length" if hasattr(model, "logit_bias") else True
    longest = model.config.text_config.max_position_embeddings
    embeddings = []
    for name in names:
        texts = [template.format(name.replace("_", " ")) for template in templates]
        tokens = tokenizer(texts, padding=padding, truncation=True, max_length=longest, return_tensors="pt")
        tokens.pop("token_type_ids", None)
        features = model.get_text_features(**tokens)
        features = getattr(features, "pooler_output", features)  # a tensor before transformers 5
        embeddings.append(nn.functional.normalize(features, dim=1).mean(0))
    return nn.functional.normalize(torch.stack(embeddings), dim=1)


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

    Args:
        version: "sc2", "rs", "us8" or "vs".
        weights: safetensors file of the whole network; None: see `pretrained`.
        pretrained: folder or name of the backbone alone; None: random weights.
        config: entries of the backbone's configuration to change.
        seed: of random weights.
    """
    version = version_named(version, HUBERT_VERSIONS, "HuBERT")
    num_classes, blocks = HUBERT_VERSIONS[version]

    def build() -> HuBERT:
        backbone = _backbone(config or {}, pretrained)
        return HuBERT(backbone, backbone.config.hidden_size, CLIPS[version], num_classes, blocks)

    return with_weights(build, seed, weights)


@MODELS.register("small_hubert")
def small_hubert(
    *,
    num_classes: int,
    sample_rate: int = 16_000,
    seconds: float = 1.0,
    weights: str | None = None,
    seed: int = 0,
) -> HuBERT:
    """A HuBERT of 0.4 million weights with the head for Speech Commands, to be trained on custom audio data.

    It has the layers of HuBERT-base in small and no pretrained weights; other rates are resampled to 16 kHz.

    Args:
        num_classes: number of outputs.
        sample_rate: of the clips, in Hz.
        seconds: length of a clip.
        weights: safetensors file; None: random weights.
        seed: of random weights.
    """
    width, clip = SMALL["hidden_size"], (sample_rate, round(seconds * sample_rate))
    build = partial(HuBERT, width=width, clip=clip, num_classes=num_classes, head_widths=(128, 64))
    return with_weights(lambda: build(_backbone(SMALL)), seed, weights)


def _backbone(config: Mapping[str, Any], pretrained: str | None = None) -> Any:
    """Return HuBERT without a head; as in the official code, no spectrogram is masked."""
    transformers = _transformers()
    options = {"mask_time_prob": 0.0, "mask_feature_prob": 0.0, "apply_spec_augment": False, "layerdrop": 0.05}
    if pretrained is not None:
        return transformers.HubertModel.from_pretrained(pretrained, **options, **config)
    return transformers.HubertModel(transformers.HubertConfig(**options, **config))


class HuggingFaceAudio(nn.Module):
    """An audio classifier of `transformers` behind its feature extractor: it takes waveforms.

    Gradients reach the weights; they reach the waveform only if the extractor just normalises it.

    Args:
        network: a classifier of `transformers`.
        extractor: its feature extractor.
        samples: length of a clip.
    """

    def __init__(self, network: nn.Module, extractor: Any, samples: int) -> None:
        super().__init__()
        self.network, self.extractor = network, extractor
        self.raw = type(extractor).__name__ == "Wav2Vec2FeatureExtractor"
        self.input_spec = InputSpec("audio", (samples,), int(extractor.sampling_rate))
        self.preprocessing = Preprocessing(sample_rate=int(extractor.sampling_rate))

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
        features: Tensor = made[self.extractor.model_input_names[0]]
        return features.to(inputs)


@MODELS.register("hugging_face_audio")
def hugging_face_audio(*, model: str, seconds: float | None = None) -> HuggingFaceAudio:
    """An audio classifier of Hugging Face by folder or name, for clips of `seconds`; needs the extra `hf`."""
    transformers = _transformers()
    with _loading(model, "an audio classifier of the hub"):
        network = transformers.AutoModelForAudioClassification.from_pretrained(model)
        extractor = transformers.AutoFeatureExtractor.from_pretrained(model)
    if seconds is None:  # spectrograms of this many frames, 10 ms apart
        frames = getattr(extractor, "max_length", None)
        seconds = 1.0 if frames is None else frames / 100
    return HuggingFaceAudio(network, extractor, round(seconds * extractor.sampling_rate)).eval()


def _image_preprocessing(model: str, transformers: Any) -> Preprocessing:
    """Read the preprocessing from its file: the classes of `transformers` for it need torchvision."""
    path = transformers.utils.cached_file(
        model, "preprocessor_config.json", _raise_exceptions_for_missing_entries=False
    )
    settings: Mapping[str, Any] = {} if path is None else json.loads(Path(path).read_text())
    crop = _side(settings.get("crop_size") if settings.get("do_center_crop", "crop_size" in settings) else None)
    size = _side(settings.get("size"))
    if size is not None and "crop_pct" in settings:  # ConvNeXt: the crop has the given size
        crop, size = crop or size, round(size / settings["crop_pct"])
    normalised = settings.get("do_normalize", True)
    crop = crop or size
    return Preprocessing(
        mean=tuple(settings.get("image_mean", (0.5, 0.5, 0.5))) if normalised else (),
        std=tuple(settings.get("image_std", (0.5, 0.5, 0.5))) if normalised else (),
        crop=None if crop is None else (crop, crop),
        resize=size,
        interpolation=RESAMPLING.get(settings.get("resample", 2), "bilinear"),
    )


def _side(size: Any) -> int | None:
    """Return one side of a size, which files give as a number or by names."""
    if isinstance(size, Mapping):
        size = size.get("shortest_edge", size.get("height"))
    return None if size is None else int(size)


@contextmanager
def _loading(model: str, kind: str) -> Iterator[None]:
    """Load what is stored under a name; heads that are not stored have the same weights every time."""
    try:
        with seeded_weights(0):
            yield
    except (OSError, ValueError) as error:
        raise ValueError(f"{model} cannot be loaded ({error}); name a folder or {kind}") from error


def _transformers() -> Any:
    return extra("hf", "transformers", "this network needs")
