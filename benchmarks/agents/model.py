"""Small Qwen3-VL checkpoints with random weights and their own vocabulary.

With the real vocabulary of 151 936 tokens, the head would be six times larger than the rest of so small a
model and hide everything else. A byte-level BPE with 2 048 entries is therefore learned from the pack's
prompts.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

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


class Shape(NamedTuple):
    """Sizes of a model.

    `deepstack`: layers of the vision tower whose features are added to those of the language model.
    """

    hidden: int
    layers: int
    heads: int
    key_value_heads: int
    head_width: int
    rotary_sections: tuple[int, int, int]
    vision_hidden: int
    vision_inner: int
    vision_layers: int
    vision_heads: int
    deepstack: tuple[int, ...]


SMALL = Shape(256, 8, 8, 4, 32, (6, 5, 5), 192, 768, 6, 6, (1, 3, 5))
MODELS = {
    "small": SMALL,
    "real-proportions": Shape(512, 12, 8, 2, 64, (12, 10, 10), 144, 538, 8, 4, (4,)),
}
"""`small` is fast, but a token of an image costs its vision tower 2.5 times as much as its language layers.

`real-proportions` is Qwen3-VL-8B with an eighth of every width and a third of the layers. A token of an image
costs the tower 0.29 of what it costs the language layers (8B: 0.26), and the tower has a tenth of their
weights (8B: a twelfth).
"""


def build(folder: Path, prompts: PromptSet, shape: Shape, answers: list[str]) -> Path:
    """Save a model of this shape. The vocabulary is learned from the prompts and answers."""
    processor = learn_processor(
        [prompts.planner_text, prompts.planner_images, prompts.critic, *answers, "true false True False"],
        VOCABULARY,
        ImageTokens((64 * 64, 1024 * 1024), patch=16, merge=2),
    )
    text = {
        "vocab_size": VOCABULARY,
        "hidden_size": shape.hidden,
        "intermediate_size": 3 * shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.key_value_heads,
        "head_dim": shape.head_width,
        "max_position_embeddings": 16384,
        "rope_parameters": rotary(5_000_000.0, *shape.rotary_sections),
    }
    vision = {
        "depth": shape.vision_layers,
        "hidden_size": shape.vision_hidden,
        "intermediate_size": shape.vision_inner,
        "num_heads": shape.vision_heads,
        "num_position_embeddings": 1024,
        "deepstack_visual_indexes": list(shape.deepstack),
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
