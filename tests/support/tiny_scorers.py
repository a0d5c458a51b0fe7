"""CLIP, SigLIP and OCR models with random weights, for tests of scorers: library classes, a few kilobytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.tiny_text_encoders import byte_vocabulary, clip_tokenizer

SIDE = 32
PAD, END = 256, 257
"""Control tokens behind the 256 bytes."""
SMALL: dict[str, Any] = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
}


def clip_folder(folder: Path) -> Path:
    """Save a CLIP model that reads images of 32 pixels."""
    import torch
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, CLIPProcessor

    torch.manual_seed(0)
    tokenizer = clip_tokenizer()
    text = {"vocab_size": len(tokenizer), "max_position_embeddings": 77, "eos_token_id": 1, **SMALL}
    vision = {"image_size": SIDE, "patch_size": 8, **SMALL}
    model = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=16))
    model.save_pretrained(folder)
    size = {"height": SIDE, "width": SIDE}
    images = CLIPImageProcessor(size={"shortest_edge": SIDE}, crop_size=size)
    CLIPProcessor(images, tokenizer).save_pretrained(folder)
    return folder


def siglip_folder(folder: Path) -> Path:
    """Save a SigLIP model that reads images of 32 pixels and texts of 16 tokens."""
    import torch
    from transformers import SiglipConfig, SiglipImageProcessor, SiglipModel, SiglipProcessor

    torch.manual_seed(0)
    tokenizer = _byte_tokenizer(16)
    text = {"vocab_size": len(tokenizer), "max_position_embeddings": 16, "projection_size": 16, **SMALL}
    vision = {"image_size": SIDE, "patch_size": 8, **SMALL}
    SiglipModel(SiglipConfig(text_config=text, vision_config=vision)).save_pretrained(folder)
    images = SiglipImageProcessor(size={"height": SIDE, "width": SIDE})
    SiglipProcessor(images, tokenizer).save_pretrained(folder)
    return folder


def trocr_folder(folder: Path) -> Path:
    """Save an OCR model of the kind of TrOCR: a vision encoder and a text decoder."""
    import torch
    from transformers import (
        TrOCRConfig,
        TrOCRForCausalLM,
        TrOCRProcessor,
        VisionEncoderDecoderModel,
        ViTConfig,
        ViTImageProcessor,
        ViTModel,
    )

    torch.manual_seed(0)
    tokenizer = _byte_tokenizer(64)
    decoder = TrOCRConfig(
        vocab_size=len(tokenizer),
        d_model=16,
        decoder_layers=1,
        decoder_attention_heads=2,
        decoder_ffn_dim=32,
        max_position_embeddings=64,
        cross_attention_hidden_size=16,
        pad_token_id=PAD,
        bos_token_id=END,
        eos_token_id=END,
        decoder_start_token_id=END,
    )
    encoder = ViTModel(ViTConfig(image_size=SIDE, patch_size=8, **SMALL))
    model = VisionEncoderDecoderModel(encoder=encoder, decoder=TrOCRForCausalLM(decoder))
    model.config.pad_token_id, model.config.decoder_start_token_id = PAD, END
    model.generation_config.max_length = 12
    model.save_pretrained(folder)
    images = ViTImageProcessor(size={"height": SIDE, "width": SIDE})
    TrOCRProcessor(images, tokenizer).save_pretrained(folder)
    return folder


def _byte_tokenizer(length: int) -> Any:
    """Return a tokenizer over single bytes whose texts end with a control token."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    letters = byte_vocabulary()
    vocabulary = letters | {mark: len(letters) + number for number, mark in enumerate(("<pad>", "</s>"))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # pyright: ignore[reportAttributeAccessIssue]
    tokenizer.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
    tokenizer.post_processor = processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", END)])  # pyright: ignore[reportAttributeAccessIssue]
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", model_max_length=length
    )


def got_folder(folder: Path) -> Path:
    """Save an OCR model of the kind of GOT-OCR 2.0, which reads images of 1024 pixels as 256 tokens.

    Its last norm is 0, so that all tokens are equally likely and it always writes the first, "!".
    """
    import torch
    from transformers import (
        GotOcr2Config,
        GotOcr2ForConditionalGeneration,
        GotOcr2ImageProcessor,
        GotOcr2Processor,
        PreTrainedTokenizerFast,
    )

    torch.manual_seed(0)
    marks = ["<|im_start|>", "<|im_end|>", "<img>", "</img>", "<imgpad>"]
    tokenizer: PreTrainedTokenizerFast = _byte_tokenizer(600)
    tokenizer.add_special_tokens({"additional_special_tokens": marks})
    text = {"vocab_size": len(tokenizer), "num_key_value_heads": 2, "model_type": "qwen2", **SMALL}
    vision = {
        "hidden_size": 8,
        "output_channels": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "mlp_dim": 8,
        "global_attn_indexes": [],
        "initializer_range": 0.02,
    }
    image: Any = tokenizer.convert_tokens_to_ids("<imgpad>")
    config = GotOcr2Config(text_config=text, vision_config=vision, image_token_index=image)
    model = GotOcr2ForConditionalGeneration(config)
    torch.nn.init.zeros_(model.model.language_model.norm.weight)
    model.save_pretrained(folder)
    images = GotOcr2ImageProcessor(size={"height": 1024, "width": 1024})
    GotOcr2Processor(images, tokenizer).save_pretrained(folder)
    return folder
