"""A small random CLIP or SigLIP with a tokenizer of whole words, saved as Hugging Face does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import torch

TEXT = "<pad> <start> <end> <unk> a photo sketch of the big dog cat red fox . picture"
WORDS = TEXT.split()


def save_clip(folder: Path, kind: Literal["clip", "siglip"] = "clip") -> Any:
    """Write the model, its tokenizer and its preprocessing to a folder, and return the model."""
    import transformers
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing

    tokens = Tokenizer(WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokens.pre_tokenizer = Whitespace()
    tokens.post_processor = TemplateProcessing(single="<start> $A <end>", special_tokens=[("<start>", 1), ("<end>", 2)])
    names = {"bos_token": "<start>", "eos_token": "<end>", "unk_token": "<unk>", "pad_token": "<pad>"}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokens, model_max_length=16, **names)
    tokenizer.save_pretrained(folder)
    tower = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    text = {**tower, "vocab_size": len(WORDS), "max_position_embeddings": 16}
    text |= {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    image = {**tower, "image_size": 32, "patch_size": 8}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if kind == "clip":
            made = transformers.CLIPModel(
                transformers.CLIPConfig(text_config=text, vision_config=image, projection_dim=24)
            )
        else:
            made = transformers.SiglipModel(
                transformers.SiglipConfig(text_config={**text, "projection_size": 32}, vision_config=image)
            )
            torch.nn.init.constant_(made.logit_bias, -3.0)
            torch.nn.init.constant_(made.logit_scale, 2.0)
    made.eval().save_pretrained(folder)
    mean = {"image_mean": [0.48, 0.46, 0.41], "image_std": [0.27, 0.26, 0.28]}
    sizes = {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}, "do_center_crop": True}
    (folder / "preprocessor_config.json").write_text(json.dumps({**mean, **sizes, "resample": 3}))
    return made
