"""Text encoders of the tiny pipelines with tokenizers and processors: library classes with random weights."""

from __future__ import annotations

from typing import Any

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] "
    "}}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


PARTS_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% for part in message['content'] %}{{ part['text'] }}{% endfor %}<|im_end|>\n{% endfor %}"
)


QWEN_TOKENS = (
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)


def byte_vocabulary(*special: str) -> dict[str, int]:
    """Return a vocabulary of the special tokens and every byte in the byte-level alphabet."""
    from tokenizers import pre_tokenizers

    return {
        token: index for index, token in enumerate([*special, *sorted(pre_tokenizers.ByteLevel.alphabet())])
    }


def qwen_tokenizer() -> Any:
    """Return Qwen's tokenizer class over single bytes."""
    from transformers import Qwen2TokenizerFast

    tokenizer = Qwen2TokenizerFast(vocab=byte_vocabulary("<|endoftext|>", *QWEN_TOKENS), merges=[])
    tokenizer.add_special_tokens({"additional_special_tokens": list(QWEN_TOKENS)})
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def clip_tokenizer() -> Any:
    """Return CLIP's tokenizer class over single bytes (each with and without the end-of-word mark)."""
    from transformers import CLIPTokenizer

    letters = byte_vocabulary("<|startoftext|>", "<|endoftext|>")
    for letter in list(letters)[2:]:
        letters[f"{letter}</w>"] = len(letters)
    return CLIPTokenizer(vocab=letters, merges=[], model_max_length=77)


def t5_tokenizer() -> Any:
    """Return T5's tokenizer class over single characters."""
    from transformers import T5TokenizerFast

    pieces = ["<pad>", "</s>", "<unk>", "▁", *(chr(code) for code in range(33, 127))]
    return T5TokenizerFast(vocab=[(piece, -1.0) for piece in pieces], extra_ids=0)


def clip_text_encoder(tokenizer: Any) -> Any:
    from transformers import CLIPTextConfig, CLIPTextModel

    return CLIPTextModel(
        CLIPTextConfig(
            hidden_size=32,
            intermediate_size=37,
            num_attention_heads=4,
            num_hidden_layers=2,
            projection_dim=32,
            vocab_size=len(tokenizer),
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def qwen25_vl(tokenizer: Any) -> Any:
    """Return a Qwen2.5-VL with hidden size 16."""
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    config = Qwen2_5_VLConfig(
        text_config=text_config(tokenizer),
        vision_config=VISION,
        vocab_size=len(tokenizer),
        **image_tokens(tokenizer),
    )
    return Qwen2_5_VLForConditionalGeneration(config)


VISION = {"depth": 2, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 16}


def text_config(tokenizer: Any, layers: int = 2) -> dict[str, Any]:
    """Return the configuration of Qwen's language model with hidden size 16."""
    return {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": layers,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "rope_parameters": {"mrope_section": [1, 1, 2], "rope_type": "default", "rope_theta": 1e6},
        "vocab_size": len(tokenizer),
        "initializer_range": 0.5,
    }


def image_tokens(tokenizer: Any) -> dict[str, int]:
    """Return the ids of Qwen's image tokens."""
    names = {
        "vision_start_token_id": "<|vision_start|>",
        "vision_end_token_id": "<|vision_end|>",
        "image_token_id": "<|image_pad|>",
        "video_token_id": "<|video_pad|>",
    }
    return {name: tokenizer.convert_tokens_to_ids(token) for name, token in names.items()}


def qwen2_processor(tokenizer: Any) -> Any:
    from transformers import Qwen2VLImageProcessor, Qwen2VLProcessor, Qwen2VLVideoProcessor

    return Qwen2VLProcessor(
        image_processor=Qwen2VLImageProcessor(), tokenizer=tokenizer, video_processor=Qwen2VLVideoProcessor()
    )


def qwen3_vl(tokenizer: Any, layers: int = 2) -> Any:
    """Return a Qwen3-VL with hidden size 16."""
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    config = Qwen3VLConfig(
        text_config=text_config(tokenizer, layers) | {"head_dim": 8},
        vision_config=VISION
        | {
            "deepstack_visual_indexes": [0],
            "num_position_embeddings": 16,
        },
        **image_tokens(tokenizer),
    )
    return Qwen3VLForConditionalGeneration(config)


def qwen3_processor(tokenizer: Any) -> Any:
    from transformers import Qwen2VLImageProcessor, Qwen3VLProcessor, Qwen3VLVideoProcessor

    return Qwen3VLProcessor(
        image_processor=Qwen2VLImageProcessor(
            patch_size=16, size={"shortest_edge": 1024, "longest_edge": 4096}
        ),
        tokenizer=tokenizer,
        video_processor=Qwen3VLVideoProcessor(),
        chat_template=PARTS_TEMPLATE,
    )
