"""Small models with random weights for each supported agent family, with their processors and vocabularies.

The vocabularies are learned from a few texts; nothing is downloaded. Tests of a family that the installed
transformers does not know are skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.tiny_checkpoint import ACCEPTED, REFUSED
from support.tiny_pipelines import of

TEXTS = [ACCEPTED, REFUSED, "Is it light? true false True False"] * 4
SIDE = 56
SQUARE: dict[str, Any] = {"size": {"height": SIDE, "width": SIDE}}
EDGES: dict[str, Any] = {"size": {"shortest_edge": SIDE * SIDE, "longest_edge": SIDE * SIDE * 4}}
TEMPLATE = (
    "{%- for message in messages %}<|im_start|>{{ message.role }}\n"
    "{%- if message.content is string %}{{ message.content }}{% else %}{%- for part in message.content %}"
    "{%- if part.type == 'image' %}IMAGE{%- else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}"
    "<|im_end|>\n{%- endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEXT = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 16384, "initializer_range": 0.08,
}  # fmt: skip
VISION: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64,
    "image_size": SIDE, "patch_size": 14,
}  # fmt: skip
QWEN_VISION: dict[str, Any] = {
    "depth": 1,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_heads": 2,
    "out_hidden_size": 32,
}
QWEN3_VISION = QWEN_VISION | {"patch_size": 16, "num_position_embeddings": 16}
QWEN_TOKENS = {
    "image_token_id": "<|image_pad|>",
    "video_token_id": "<|video_pad|>",
    "vision_start_token_id": "<|vision_start|>",
    "vision_end_token_id": "<|vision_end|>",
}
Built = tuple[Any, Any]


def tokenizer(*controls: str, **named: str) -> Any:
    """Return a byte-level tokenizer with these control tokens; `named` are those that the library needs."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    learned = Tokenizer(models.BPE())
    learned.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # pyright: ignore[reportAttributeAccessIssue]
    learned.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
    every = list(dict.fromkeys(["<|endoftext|>", "<|im_start|>", "<|im_end|>", *controls, *named.values()]))
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=every,
        show_progress=False,
    )
    learned.train_from_iterator(TEXTS, trainer)
    ends = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    return of(
        "PreTrainedTokenizerFast", tokenizer_object=learned, additional_special_tokens=every, **ends, **named
    )


def rotary(*sections: int, **more: float) -> dict[str, Any]:
    rope = {
        "rope_type": "default",
        "rope_theta": 10000.0,
        "mrope_section": sections,
        "mrope_interleaved": True,
    }
    return {"rope_parameters": rope | more}


def built(
    family: str,
    words: Any,
    processor: Any,
    text: dict[str, Any],
    vision: dict[str, Any],
    tokens: dict[str, str],
    **config: Any,
) -> Built:
    """Return the model of a family, and its processor.

    Args:
        family: Start of the names of its classes.
        words: The tokenizer.
        processor: The processor.
        text: What its language model has in addition to TEXT.
        vision: Configuration of its vision model.
        tokens: Fields of its configuration that are ids of tokens.
        **config: Other fields.
    """
    ids = {name: words.convert_tokens_to_ids(token) for name, token in tokens.items()}
    text = {**TEXT, "vocab_size": len(words), **text}
    whole = of(f"{family}Config", text_config=text, vision_config=vision, **ids, **config)
    return of(f"{family}ForConditionalGeneration", whole), processor


def processing(name: str, words: Any, image: Any, shown: str, **more: Any) -> Any:
    """Return a processor whose chat template shows an image as `shown`."""
    template = more.pop("start", "") + TEMPLATE.replace("IMAGE", shown)
    return of(f"{name}Processor", image_processor=image, tokenizer=words, chat_template=template, **more)


def qwen_processing(name: str, video: str, patch: int) -> tuple[Any, Any]:
    """Return a tokenizer of Qwen and a processor of this class."""
    words = tokenizer(**{name.removesuffix("_id"): token for name, token in QWEN_TOKENS.items()})
    shown = EDGES | {"patch_size": patch}
    image, movie = of("Qwen2VLImageProcessor", **shown), of(f"{video}VideoProcessor", **shown)
    mark = "<|vision_start|><|image_pad|><|vision_end|>"
    return words, processing(name, words, image, mark, video_processor=movie)


def qwen2_5_vl() -> Built:
    words, processor = qwen_processing("Qwen2_5_VL", "Qwen2VL", 14)
    vision = QWEN_VISION | {"window_size": 56, "fullatt_block_indexes": [0]}
    return built("Qwen2_5_VL", words, processor, rotary(1, 1, 2), vision, QWEN_TOKENS)


def qwen3_vl_moe() -> Built:
    words, processor = qwen_processing("Qwen3VL", "Qwen3VL", 16)
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "pad_token_id": 0}
    vision = QWEN3_VISION | {"deepstack_visual_indexes": [0]}
    return built("Qwen3VLMoe", words, processor, rotary(2, 1, 1) | experts, vision, QWEN_TOKENS)


def qwen3_5() -> Built:
    words, processor = qwen_processing("Qwen3VL", "Qwen3VL", 16)
    return built("Qwen3_5", words, processor, QWEN3_5_TEXT, QWEN3_VISION, QWEN_TOKENS)


QWEN3_5_TEXT: dict[str, Any] = {
    "head_dim": 16,
    "layer_types": ["linear_attention", "full_attention"],
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    **rotary(1, 1, 0, partial_rotary_factor=0.25),
}


def glm4v() -> Built:
    tokens = {
        "image_token_id": "<|image|>", "video_token_id": "<|video|>",
        "image_start_token_id": "<|begin_of_image|>", "image_end_token_id": "<|end_of_image|>",
        "video_start_token_id": "<|begin_of_video|>", "video_end_token_id": "<|end_of_video|>",
    }  # fmt: skip
    words = tokenizer(*tokens.values(), image_token="<|image|>", video_token="<|video|>")
    image, video = of("Glm4vImageProcessor", **EDGES), of("Glm4vVideoProcessor", **EDGES)
    mark = "<|begin_of_image|><|image|><|end_of_image|>"
    processor = processing("Glm4v", words, image, mark, video_processor=video)
    text = {"pad_token_id": 0, **rotary(2, 1, 1, partial_rotary_factor=1.0)}
    return built(
        "Glm4v", words, processor, text, QWEN_VISION | {"image_size": SIDE, "patch_size": 14}, tokens
    )


def internvl() -> Built:
    names = {
        "start_image_token": "<img>",
        "end_image_token": "</img>",
        "context_image_token": "<IMG_CONTEXT>",
    }
    words = tokenizer(**names, video_token="<video>")
    image = of("GotOcr2ImageProcessor", **SQUARE, crop_to_patches=False)
    video = of("InternVLVideoProcessor", **SQUARE)
    processor = processing(
        "InternVL", words, image, "<IMG_CONTEXT>\n", video_processor=video, image_seq_length=4
    )
    vision = VISION | {"image_size": [SIDE, SIDE], "patch_size": [14, 14]}
    tokens, more = {"image_token_id": "<IMG_CONTEXT>"}, {"downsample_ratio": 0.5, "image_seq_length": 4}
    return built("InternVL", words, processor, {"model_type": "qwen2"}, vision, tokens, **more)


def gemma3() -> Built:
    names = {
        "boi_token": "<start_of_image>",
        "eoi_token": "<end_of_image>",
        "image_token": "<image_soft_token>",
    }
    words = tokenizer(bos_token="<bos>", **names)
    image = of("Gemma3ImageProcessor", **SQUARE)
    processor = processing(
        "Gemma3", words, image, "<start_of_image>", image_seq_length=4, start="{{ bos_token }}"
    )
    tokens = {f"{name}_index": token for name, token in names.items()} | {
        "image_token_id": names["image_token"]
    }
    text = {"sliding_window": 64}
    return built("Gemma3", words, processor, text, VISION, tokens, mm_tokens_per_image=4)


def gemma4() -> Built:
    names = {"boi_token": "<|image>", "eoi_token": "<image|>", "image_token": "<|image|>"}
    sound = {"audio_token": "<|audio|>", "boa_token": "<|audio>", "eoa_token": "<audio|>"}
    words = tokenizer("<|video|>", bos_token="<bos>", **names, **sound)
    image = of("Gemma4ImageProcessor", patch_size=14, max_soft_tokens=70, pooling_kernel_size=2)
    more = {
        "feature_extractor": of("Gemma4AudioFeatureExtractor"),
        "video_processor": of("Gemma4VideoProcessor", patch_size=14),
    }
    processor = processing("Gemma4", words, image, "<|image|>", start="{{ bos_token }}", **more)
    text = {
        "vocab_size_per_layer_input": len(words), "global_head_dim": 8, "hidden_size_per_layer_input": 8,
        "num_kv_shared_layers": 0, "sliding_window": 64,
        "layer_types": ["sliding_attention", "full_attention"],
    }  # fmt: skip
    vision = {name: one for name, one in VISION.items() if name != "image_size"} | {
        "num_key_value_heads": 2,
        "head_dim": 16,
        "pooling_kernel_size": 2,
        "position_embedding_size": 64,
    }
    tokens = {f"{name}_id": token for name, token in names.items()}
    return built("Gemma4", words, processor, text, vision, tokens, audio_config=None)


def llava_onevision() -> Built:
    words = tokenizer(image_token="<image>", video_token="<video>")
    grid = {"image_grid_pinpoints": [[SIDE, SIDE]]}
    image = of("LlavaOnevisionImageProcessor", **SQUARE, **grid)
    video = of("LlavaOnevisionVideoProcessor", **SQUARE)
    features = {"num_image_tokens": 16, "vision_feature_select_strategy": "full"}
    processor = processing("LlavaOnevision", words, image, "<image>", video_processor=video, **features)
    vision = VISION | {"model_type": "siglip_vision_model", "num_hidden_layers": 2, "vision_use_head": False}
    tokens = {"image_token_index": "<image>", "video_token_index": "<video>", "image_token_id": "<image>"}
    return built("LlavaOnevision", words, processor, {"model_type": "qwen2"}, vision, tokens, **grid)


def idefics3() -> Built:
    words = tokenizer("<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>")
    longest = {"longest_edge": SIDE}
    image = of("Idefics3ImageProcessor", size=longest, max_image_size=longest, do_image_splitting=False)
    processor = processing("Idefics3", words, image, "<image>", image_seq_len=4)
    text, tokens = {"model_type": "llama", "pad_token_id": 0}, {"image_token_id": "<image>"}
    return built("Idefics3", words, processor, text, VISION, tokens, scale_factor=2, pad_token_id=0)


def mistral3() -> Built:
    words = tokenizer("[IMG]", "[IMG_BREAK]", "[IMG_END]")
    patch = {"height": 14, "width": 14}
    image = of("PixtralImageProcessor", size={"longest_edge": SIDE}, patch_size=patch)
    processor = processing("Pixtral", words, image, "[IMG]", patch_size=14, spatial_merge_size=2)
    vision = VISION | {"model_type": "pixtral", "head_dim": 16}
    tokens = {"image_token_index": "[IMG]", "image_token_id": "[IMG]"}
    return built(
        "Mistral3", words, processor, {"model_type": "mistral"}, vision, tokens, spatial_merge_size=2
    )


def minicpmv4_6() -> Built:
    marks = {"image_token": "<|image_pad|>", "video_token": "<|video_pad|>"}
    for name in ("image", "slice", "image_id"):
        marks |= {f"{name}_start_token": f"<{name}>", f"{name}_end_token": f"</{name}>"}
    words = tokenizer(**marks)
    image = of("MiniCPMV4_6ImageProcessor", scale_resolution=112, slice_mode=False)
    video = of("MiniCPMV4_6VideoProcessor")
    processor = processing("MiniCPMV4_6", words, image, "<|image_pad|>", video_processor=video)
    tokens = {"image_token_id": "<|image_pad|>", "video_token_id": "<|video_pad|>"}
    text = QWEN3_5_TEXT | {"model_type": "qwen3_5_text"}
    vision = VISION | {"num_hidden_layers": 2, "image_size": 112}
    return built("MiniCPMV4_6", words, processor, text, vision, tokens, insert_layer_id=0, image_size=112)


FAMILIES: dict[str, Callable[[], Built]] = {
    one.__name__: one
    for one in (
        qwen2_5_vl,
        qwen3_vl_moe,
        qwen3_5,
        glm4v,
        internvl,
        gemma3,
        gemma4,
        llava_onevision,
        idefics3,
        mistral3,
        minicpmv4_6,
    )
}


def build_family(name: str) -> Built:
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
