"""A small Qwen3-VL checkpoint with random weights and its own vocabulary.

With the real vocabulary of 151 936 tokens, the head would be six times larger than the rest of so small a
model and hide everything else. A byte-level BPE with 2 048 entries is therefore learned from the pack's
prompts.
"""

from __future__ import annotations

from pathlib import Path

from interleave_thinker.backend.prompts import PromptSet
from interleave_thinker.tinyworld.lab.models.small_checkpoint import (
    ImageTokens,
    learn_processor,
    rotary,
    save_untrained,
)

VOCABULARY = 2048
ADAPTER = "adapter"
"""Folder of the adapter within the checkpoint."""
HEADS, KEY_VALUE_HEADS, HEAD_WIDTH = 8, 4, 32
VISION_DEPTH, VISION_WIDTH = 6, 192


def build(folder: Path, prompts: PromptSet, hidden: int, layers: int, answers: list[str]) -> Path:
    """Save a model of this width and depth. The vocabulary is learned from the prompts and answers."""
    processor = learn_processor(
        [prompts.planner_text, prompts.planner_images, prompts.critic, *answers, "true false True False"],
        VOCABULARY,
        ImageTokens((64 * 64, 1024 * 1024), patch=16, merge=2),
    )
    text = {
        "vocab_size": VOCABULARY,
        "hidden_size": hidden,
        "intermediate_size": 3 * hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KEY_VALUE_HEADS,
        "head_dim": HEAD_WIDTH,
        "max_position_embeddings": 16384,
        "rope_parameters": rotary(5_000_000.0, 6, 5, 5),
    }
    vision = {
        "depth": VISION_DEPTH,
        "hidden_size": VISION_WIDTH,
        "intermediate_size": 4 * VISION_WIDTH,
        "num_heads": 6,
        "num_position_embeddings": 1024,
        "deepstack_visual_indexes": [1, 3, 5],
    }
    return save_untrained(folder, processor, text, vision, seed=0)


def build_adapter(checkpoint: Path) -> Path:
    """Save a LoRA adapter of rank 8 for all linear layers of the language model, inside the checkpoint."""
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
