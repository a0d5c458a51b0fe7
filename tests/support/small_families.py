"""Small models with random weights for each supported agent family, with their processors and vocabularies.

The vocabularies are learned from a few texts; nothing is downloaded. Tests of a family that the installed
transformers does not know are skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.small_family_parts import SIDE, TEXT, ids, rotary, template, tokenizer


def qwen2_5_vl() -> tuple[Any, Any]:
    from transformers import (
        Qwen2_5_VLConfig,
        Qwen2_5_VLForConditionalGeneration,
        Qwen2_5_VLProcessor,
        Qwen2VLImageProcessor,
        Qwen2VLVideoProcessor,
    )

    words, shown = _qwen_words()
    processor = Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessor(**shown, patch_size=14),
        tokenizer=words,
        video_processor=Qwen2VLVideoProcessor(**shown, patch_size=14),
        chat_template=template("<|vision_start|><|image_pad|><|vision_end|>"),
    )
    config = Qwen2_5_VLConfig(
        text_config={**TEXT, "vocab_size": len(words), "rope_parameters": rotary([1, 1, 2])},
        vision_config={
            "depth": 1, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 32,
            "window_size": 56, "fullatt_block_indexes": [0],
        },
        **_qwen_ids(words),
    )  # fmt: skip
    return Qwen2_5_VLForConditionalGeneration(config), processor


def qwen3_vl_moe() -> tuple[Any, Any]:
    from transformers import Qwen3VLMoeConfig, Qwen3VLMoeForConditionalGeneration

    words, processor = _qwen3_processor()
    config = Qwen3VLMoeConfig(
        text_config={
            **TEXT, "vocab_size": len(words), "pad_token_id": 0, "rope_parameters": rotary([2, 1, 1]),
            "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
        },
        vision_config=_QWEN3_VISION,
        **_qwen_ids(words),
    )  # fmt: skip
    return Qwen3VLMoeForConditionalGeneration(config), processor


def qwen3_5() -> tuple[Any, Any]:
    from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration

    words, processor = _qwen3_processor()
    config = Qwen3_5Config(
        text_config=_qwen3_5_text(words),
        vision_config={name: one for name, one in _QWEN3_VISION.items() if "deepstack" not in name},
        **_qwen_ids(words),
    )
    return Qwen3_5ForConditionalGeneration(config), processor


def glm4v() -> tuple[Any, Any]:
    from transformers import (
        Glm4vConfig,
        Glm4vForConditionalGeneration,
        Glm4vImageProcessor,
        Glm4vProcessor,
        Glm4vVideoProcessor,
    )

    words = tokenizer(
        "<|begin_of_image|>", "<|image|>", "<|end_of_image|>", "<|video|>", "<|begin_of_video|>",
        "<|end_of_video|>",
        image_token="<|image|>", video_token="<|video|>",
    )  # fmt: skip
    shown: dict[str, Any] = {"size": {"shortest_edge": SIDE * SIDE, "longest_edge": SIDE * SIDE * 4}}
    processor = Glm4vProcessor(
        image_processor=Glm4vImageProcessor(**shown),
        tokenizer=words,
        video_processor=Glm4vVideoProcessor(**shown),
        chat_template=template("<|begin_of_image|><|image|><|end_of_image|>"),
    )
    config = Glm4vConfig(
        text_config={
            **TEXT, "vocab_size": len(words), "pad_token_id": 0,
            "rope_parameters": {**rotary([2, 1, 1]), "partial_rotary_factor": 1.0},
        },
        vision_config={
            "depth": 1, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 32,
            "image_size": SIDE, "patch_size": 14,
        },
        **ids(
            words, image_token_id="<|image|>", video_token_id="<|video|>",
            image_start_token_id="<|begin_of_image|>",
            image_end_token_id="<|end_of_image|>", video_start_token_id="<|begin_of_video|>",
            video_end_token_id="<|end_of_video|>",
        ),
    )  # fmt: skip
    return Glm4vForConditionalGeneration(config), processor


def internvl() -> tuple[Any, Any]:
    from transformers import (
        GotOcr2ImageProcessor,
        InternVLConfig,
        InternVLForConditionalGeneration,
        InternVLProcessor,
        InternVLVideoProcessor,
    )

    words = tokenizer(
        "<img>", "</img>", "<IMG_CONTEXT>", "<video>",
        start_image_token="<img>", end_image_token="</img>", context_image_token="<IMG_CONTEXT>",
        video_token="<video>",
    )  # fmt: skip
    size: dict[str, Any] = {"size": {"height": SIDE, "width": SIDE}}
    processor = InternVLProcessor(
        image_processor=GotOcr2ImageProcessor(**size, crop_to_patches=False),
        tokenizer=words,
        video_processor=InternVLVideoProcessor(**size),
        image_seq_length=4,
        chat_template=template("<IMG_CONTEXT>\n"),
    )
    config = InternVLConfig(
        text_config={**TEXT, "model_type": "qwen2", "vocab_size": len(words)},
        vision_config={
            "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64,
            "image_size": [SIDE, SIDE], "patch_size": [14, 14],
        },
        downsample_ratio=0.5,
        image_seq_length=4,
        **ids(words, image_token_id="<IMG_CONTEXT>"),
    )  # fmt: skip
    return InternVLForConditionalGeneration(config), processor


def gemma3() -> tuple[Any, Any]:
    from transformers import (
        Gemma3Config,
        Gemma3ForConditionalGeneration,
        Gemma3ImageProcessor,
        Gemma3Processor,
    )

    words = tokenizer(
        "<bos>", "<start_of_image>", "<end_of_image>", "<image_soft_token>", bos_token="<bos>",
        image_token="<image_soft_token>", boi_token="<start_of_image>", eoi_token="<end_of_image>",
    )  # fmt: skip
    processor = Gemma3Processor(
        image_processor=Gemma3ImageProcessor(size={"height": SIDE, "width": SIDE}),
        tokenizer=words,
        image_seq_length=4,
        chat_template="{{ bos_token }}" + template("<start_of_image>"),
    )
    config = Gemma3Config(
        text_config={**TEXT, "vocab_size": len(words), "sliding_window": 64},
        vision_config={
            "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64,
            "image_size": SIDE, "patch_size": 14,
        },
        mm_tokens_per_image=4,
        **ids(
            words, image_token_id="<image_soft_token>", image_token_index="<image_soft_token>",
            boi_token_index="<start_of_image>", eoi_token_index="<end_of_image>",
        ),
    )  # fmt: skip
    return Gemma3ForConditionalGeneration(config), processor


def gemma4() -> tuple[Any, Any]:
    import transformers

    words = tokenizer(
        "<bos>", "<|image>", "<image|>", "<|image|>", "<|audio|>", "<|audio>", "<audio|>", "<|video|>",
        bos_token="<bos>", image_token="<|image|>", boi_token="<|image>", eoi_token="<image|>",
        audio_token="<|audio|>", boa_token="<|audio>", eoa_token="<audio|>",
    )  # fmt: skip
    processor = transformers.Gemma4Processor(
        image_processor=transformers.Gemma4ImageProcessor(
            patch_size=14, max_soft_tokens=70, pooling_kernel_size=2
        ),
        feature_extractor=transformers.Gemma4AudioFeatureExtractor(),
        video_processor=transformers.Gemma4VideoProcessor(patch_size=14),
        tokenizer=words,
        chat_template="{{ bos_token }}" + template("<|image|>"),
    )
    config = transformers.Gemma4Config(
        text_config={
            **TEXT, "vocab_size": len(words), "vocab_size_per_layer_input": len(words), "global_head_dim": 8,
            "hidden_size_per_layer_input": 8, "num_kv_shared_layers": 0, "sliding_window": 64,
            "layer_types": ["sliding_attention", "full_attention"],
        },
        vision_config={
            "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
            "intermediate_size": 64, "head_dim": 16, "patch_size": 14, "pooling_kernel_size": 2,
            "position_embedding_size": 64,
        },
        audio_config=None,
        **ids(words, image_token_id="<|image|>", boi_token_id="<|image>", eoi_token_id="<image|>"),
    )  # fmt: skip
    return transformers.Gemma4ForConditionalGeneration(config), processor


def llava_onevision() -> tuple[Any, Any]:
    import transformers

    words = tokenizer("<image>", "<video>", image_token="<image>", video_token="<video>")
    size: dict[str, Any] = {"size": {"height": SIDE, "width": SIDE}}
    processor = transformers.LlavaOnevisionProcessor(
        image_processor=transformers.LlavaOnevisionImageProcessor(
            **size, image_grid_pinpoints=[[SIDE, SIDE]]
        ),
        tokenizer=words,
        video_processor=transformers.LlavaOnevisionVideoProcessor(**size),
        num_image_tokens=16,
        vision_feature_select_strategy="full",
        chat_template=template("<image>"),
    )
    config = transformers.LlavaOnevisionConfig(
        text_config={**TEXT, "model_type": "qwen2", "vocab_size": len(words)},
        vision_config={
            "model_type": "siglip_vision_model", "hidden_size": 32, "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 64, "image_size": SIDE, "patch_size": 14, "vision_use_head": False,
        },
        image_grid_pinpoints=[[SIDE, SIDE]],
        **ids(words, image_token_index="<image>", video_token_index="<video>", image_token_id="<image>"),
    )  # fmt: skip
    return transformers.LlavaOnevisionForConditionalGeneration(config), processor


def idefics3() -> tuple[Any, Any]:
    import transformers

    words = tokenizer("<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>")
    processor = transformers.Idefics3Processor(
        image_processor=transformers.Idefics3ImageProcessor(
            size={"longest_edge": SIDE}, max_image_size={"longest_edge": SIDE}, do_image_splitting=False
        ),
        tokenizer=words,
        image_seq_len=4,
        chat_template=template("<image>"),
    )
    config = transformers.Idefics3Config(
        text_config={**TEXT, "model_type": "llama", "vocab_size": len(words), "pad_token_id": 0},
        vision_config={
            "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64,
            "image_size": SIDE, "patch_size": 14,
        },
        scale_factor=2,
        pad_token_id=0,
        **ids(words, image_token_id="<image>"),
    )  # fmt: skip
    return transformers.Idefics3ForConditionalGeneration(config), processor


def mistral3() -> tuple[Any, Any]:
    import transformers

    words = tokenizer("[IMG]", "[IMG_BREAK]", "[IMG_END]")
    processor = transformers.PixtralProcessor(
        image_processor=transformers.PixtralImageProcessor(
            size={"longest_edge": SIDE}, patch_size={"height": 14, "width": 14}
        ),
        tokenizer=words,
        patch_size=14,
        spatial_merge_size=2,
        chat_template=template("[IMG]"),
    )
    config = transformers.Mistral3Config(
        text_config={**TEXT, "model_type": "mistral", "vocab_size": len(words)},
        vision_config={
            "model_type": "pixtral", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
            "intermediate_size": 64, "image_size": SIDE, "patch_size": 14, "head_dim": 16,
        },
        spatial_merge_size=2,
        **ids(words, image_token_index="[IMG]", image_token_id="[IMG]"),
    )  # fmt: skip
    return transformers.Mistral3ForConditionalGeneration(config), processor


def minicpmv4_6() -> tuple[Any, Any]:
    import transformers

    marks = {
        "image_token": "<|image_pad|>",
        "video_token": "<|video_pad|>",
        "image_start_token": "<image>",
        "image_end_token": "</image>",
        "slice_start_token": "<slice>",
        "slice_end_token": "</slice>",
        "image_id_start_token": "<image_id>",
        "image_id_end_token": "</image_id>",
    }
    words = tokenizer(*marks.values(), **marks)
    processor = transformers.MiniCPMV4_6Processor(
        image_processor=transformers.MiniCPMV4_6ImageProcessor(scale_resolution=112, slice_mode=False),
        video_processor=transformers.MiniCPMV4_6VideoProcessor(),
        tokenizer=words,
        chat_template=template("<|image_pad|>"),
    )
    config = transformers.MiniCPMV4_6Config(
        text_config={**_qwen3_5_text(words), "model_type": "qwen3_5_text"},
        vision_config={
            "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
            "image_size": 112, "patch_size": 14,
        },
        insert_layer_id=0,
        image_size=112,
        **ids(words, image_token_id="<|image_pad|>", video_token_id="<|video_pad|>"),
    )  # fmt: skip
    return transformers.MiniCPMV4_6ForConditionalGeneration(config), processor


FAMILIES: dict[str, Callable[[], tuple[Any, Any]]] = {
    "qwen2_5_vl": qwen2_5_vl,
    "qwen3_vl_moe": qwen3_vl_moe,
    "qwen3_5": qwen3_5,
    "glm4v": glm4v,
    "internvl": internvl,
    "gemma3": gemma3,
    "gemma4": gemma4,
    "llava_onevision": llava_onevision,
    "idefics3": idefics3,
    "mistral3": mistral3,
    "minicpmv4_6": minicpmv4_6,
}


def build_family(name: str) -> tuple[Any, Any]:
    """Return model and processor of one of FAMILIES; skips the test if transformers does not know it."""
    from transformers import CONFIG_MAPPING, __version__

    if name not in CONFIG_MAPPING:
        pytest.skip(f"transformers {__version__} has no {name}")
    return FAMILIES[name]()


def save_family(name: str, folder: Path) -> Path:
    """Save a checkpoint of this family in `folder`; it is the same every time."""
    import torch

    torch.manual_seed(1)
    model, processor = build_family(name)
    for weights in model.parameters():
        # Weights that start at zero (Gemma's projection) would hide the images.
        if not weights.any():
            torch.nn.init.normal_(weights, std=0.05)
    model.generation_config.eos_token_id = processor.tokenizer.eos_token_id
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


_QWEN3_VISION: dict[str, Any] = {
    "depth": 1, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 32,
    "patch_size": 16,
    "num_position_embeddings": 16, "deepstack_visual_indexes": [0],
}  # fmt: skip


def _qwen3_5_text(words: Any) -> dict[str, Any]:
    return {
        **TEXT, "vocab_size": len(words), "head_dim": 16,
        "layer_types": ["linear_attention", "full_attention"],
        "linear_num_key_heads": 2, "linear_num_value_heads": 2, "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
        "rope_parameters": {**rotary([1, 1, 0]), "partial_rotary_factor": 0.25},
    }  # fmt: skip


def _qwen_words() -> tuple[Any, dict[str, Any]]:
    words = tokenizer(
        "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>", image_token="<|image_pad|>",
        video_token="<|video_pad|>", vision_start_token="<|vision_start|>", vision_end_token="<|vision_end|>",
    )  # fmt: skip
    return words, {"size": {"shortest_edge": SIDE * SIDE, "longest_edge": SIDE * SIDE * 4}}


def _qwen_ids(words: Any) -> dict[str, int]:
    return ids(
        words, image_token_id="<|image_pad|>", video_token_id="<|video_pad|>",
        vision_start_token_id="<|vision_start|>",
        vision_end_token_id="<|vision_end|>",
    )  # fmt: skip


def _qwen3_processor() -> tuple[Any, Any]:
    from transformers import Qwen2VLImageProcessor, Qwen3VLProcessor, Qwen3VLVideoProcessor

    words, shown = _qwen_words()
    processor = Qwen3VLProcessor(
        image_processor=Qwen2VLImageProcessor(**shown, patch_size=16),
        tokenizer=words,
        video_processor=Qwen3VLVideoProcessor(**shown, patch_size=16),
        chat_template=template("<|vision_start|><|image_pad|><|vision_end|>"),
    )
    return words, processor
