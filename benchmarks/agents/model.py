"""A small Qwen3-VL with random weights and a vocabulary of its own, saved as a checkpoint folder.

Decision: the real vocabulary of 151 936 would make the head of so small a model six times its body and hide everything else,
so a byte-level BPE of 2 048 entries is learned from the pack's own prompts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from interleave_thinker.backend.prompts import PromptSet

CONTROLS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
TEMPLATE = (
    "{%- for message in messages %}<|im_start|>{{ message.role }}\n"
    "{%- if message.content is string %}{{ message.content }}{% else %}"
    "{%- for part in message.content %}"
    "{%- if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{%- else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n"
    "{%- endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
VOCABULARY = 2048
ADAPTER = "adapter"
"""Folder of the adapter in the checkpoint's."""
HEADS, KEY_VALUE_HEADS, HEAD_WIDTH = 8, 4, 32
VISION_DEPTH, VISION_WIDTH = 6, 192


def build(folder: Path, prompts: PromptSet, hidden: int, layers: int, answers: list[str]) -> Path:
    """Save a model of this width and depth; the vocabulary is learned from the prompts and the answers."""
    import torch
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    processor = _processor([prompts.planner_text, prompts.planner_images, prompts.critic, *answers])
    ids = {name: processor.tokenizer.convert_tokens_to_ids(name) for name in CONTROLS}
    config = Qwen3VLConfig(
        text_config={
            "vocab_size": VOCABULARY,
            "hidden_size": hidden,
            "intermediate_size": 3 * hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": HEADS,
            "num_key_value_heads": KEY_VALUE_HEADS,
            "head_dim": HEAD_WIDTH,
            "max_position_embeddings": 16384,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 5_000_000.0,
                "mrope_section": [6, 5, 5],
                "mrope_interleaved": True,
            },
        },
        vision_config={
            "depth": VISION_DEPTH,
            "hidden_size": VISION_WIDTH,
            "intermediate_size": 4 * VISION_WIDTH,
            "num_heads": 6,
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "out_hidden_size": hidden,
            "num_position_embeddings": 1024,
            "deepstack_visual_indexes": [1, 3, 5],
        },
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        tie_word_embeddings=True,
    )
    torch.manual_seed(0)
    model = Qwen3VLForConditionalGeneration(config)
    model.generation_config.eos_token_id = ids["<|im_end|>"]
    model.generation_config.pad_token_id = ids["<|endoftext|>"]
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def build_adapter(checkpoint: Path) -> Path:
    """Save a LoRA adapter of rank 8 on every linear layer of the language model, beside the checkpoint's files."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import Qwen3VLForConditionalGeneration

    config = LoraConfig(r=8, target_modules=r".*language_model.*\.(q|k|v|o|gate|up|down)_proj")
    adapted = get_peft_model(Qwen3VLForConditionalGeneration.from_pretrained(checkpoint), config)
    torch.manual_seed(1)
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=0.02)
    adapted.save_pretrained(str(checkpoint / ADAPTER))
    return checkpoint / ADAPTER


def _processor(texts: list[str]) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import (
        PreTrainedTokenizerFast,
        Qwen2VLImageProcessor,
        Qwen3VLProcessor,
        Qwen3VLVideoProcessor,
    )

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        min_frequency=1,
        special_tokens=list(CONTROLS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*texts, "true false True False"], trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=list(CONTROLS[1:]),
    )
    sizes = {
        "size": {"shortest_edge": 64 * 64, "longest_edge": 1024 * 1024},
        "patch_size": 16,
        "merge_size": 2,
    }
    return Qwen3VLProcessor(
        image_processor=Qwen2VLImageProcessor(**sizes),
        tokenizer=fast,
        video_processor=Qwen3VLVideoProcessor(**sizes),
        chat_template=TEMPLATE,
    )
