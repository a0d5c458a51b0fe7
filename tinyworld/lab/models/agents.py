"""Untrained planner and critic of the tiny world: Qwen3-VL classes with about two million weights.

Some choices were measured: images are scaled to 48x48 pixels and cut into nine patches, because only with one
token per cell could so small a model see. Weights start at 1/sqrt(width); otherwise vision never improved.
Fixed fragments of answers and names of cells are single tokens, so that answers are short.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...runtime.scene import CELLS, IDENTITIES, name_of
from ..data.critic_rows import PROMPT_SET
from .small_checkpoint import ImageTokens, learn_processor, rotary, save_untrained

if TYPE_CHECKING:
    import torch

NAMES = [f" {name_of(identity)}" for identity in range(1, IDENTITIES)]
FRAGMENTS = [
    "<think>",
    "</think>",
    "\n\n<answer>",
    "</answer>",
    '{"execution_plan": [{"step_number": ',
    '}, {"step_number": ',
    '"}, {"step_number": ',
    ', "step_name": "',
    '", "instruction": "',
    '", "instruction": null',
    '", "prompt": "',
    ', "prompt": null',
    '", "auxiliary_text": "',
    '", "auxiliary_text": null',
    ', "auxiliary_text": "',
    "}]}",
    '"}]}',
    '{"previous_step_success": ',
    "true",
    "false",
    ', "refine_prompt": "',
    '"}',
    *[f" {cell}" for cell in CELLS if " " in cell],
]
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}"
    "{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% "
    "endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
PICTURE_SIDE, WIDTH, VOCABULARY = 48, 160, 700
PICTURES = {"temporal_patch_size": 2, "image_mean": [1.0] * 3, "image_std": [0.5] * 3}


def untrained(folder: Path, corpus: Iterable[str], layers: int, seed: int, seeing: int = 0) -> Path:
    """Create a checkpoint folder with tokenizer, processor and random weights.

    Args:
        folder: Folder to write.
        corpus: Texts to learn the vocabulary from.
        layers: Layers of the language model.
        seed: Seed of the weights.
        seeing: For a critic: side of its images in pixels (default: PICTURE_SIDE). Names of colored things
            are then single tokens, and the patch embedding starts at the principal components of cells (see
            `_see_cells`).
    """
    import torch

    side = seeing or PICTURE_SIDE
    processor = learn_processor(
        _without_fragments(corpus),
        VOCABULARY,
        ImageTokens((side**2, side**2), side // 3, 1, PICTURES),
        fragments=[*FRAGMENTS, *(NAMES if seeing else [])],
        template=CHAT_TEMPLATE,
        padding_side="left",
    )

    def prepare(model: Any) -> None:
        torch.nn.init.normal_(model.model.visual.pos_embed.weight, std=0.5)
        if seeing:
            _see_cells(model.model.visual.patch_embed.proj)

    text = {
        "vocab_size": len(processor.tokenizer),
        "hidden_size": WIDTH,
        "intermediate_size": 3 * WIDTH,
        "num_hidden_layers": layers,
        "num_attention_heads": WIDTH // 32,
        "num_key_value_heads": WIDTH // 32,
        "head_dim": 32,
        "max_position_embeddings": 4096,
        "rope_parameters": rotary(10000.0, 4, 6, 6),
        "initializer_range": 0.08,
        "tie_word_embeddings": True,
        "pad_token_id": processor.tokenizer.pad_token_id,
        "eos_token_id": processor.tokenizer.eos_token_id,
    }
    vision = {
        "depth": 2,
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_heads": 4,
        "num_position_embeddings": 9,
        "deepstack_visual_indexes": [0],
        "initializer_range": 0.08,
    }
    save_untrained(folder, processor, text, vision, seed, prepare)
    PROMPT_SET.save(folder / "prompt_set")
    return folder


def _see_cells(embedding: torch.nn.Conv3d) -> None:
    """Set a patch embedding to the principal components of all cells, each with about unit variance.

    From random weights, colors were told apart after a few hundred steps but shapes were not.
    """
    import torch

    from ...runtime.drawing import atlas

    tiles = torch.tensor(atlas()).permute(0, 1, 2, 5, 3, 4).flatten(0, 2).float() / 255
    small = torch.nn.functional.interpolate(tiles, size=tuple(embedding.weight.shape[-2:]), mode="area")
    pixels = ((small - 1.0) / 0.5).flatten(1).double()
    mean = pixels.mean(0)
    _, spread, directions = torch.linalg.svd(pixels - mean, full_matrices=False)
    count = embedding.weight.shape[0]
    directions = directions[:count]
    directions = directions * directions.gather(1, directions.abs().argmax(1, keepdim=True)).sign()
    variance = spread[:count] ** 2 / len(pixels)
    weight = directions / (variance + 0.01 * variance.mean()).sqrt()[:, None]
    frames = embedding.weight.shape[2]
    shaped = weight.reshape(count, 3, 1, *small.shape[-2:]).expand(-1, -1, frames, -1, -1) / frames
    with torch.no_grad():
        embedding.weight.copy_(shaped)
        assert embedding.bias is not None
        embedding.bias.copy_(-(weight @ mean))


def _without_fragments(corpus: Iterable[str]) -> Iterable[str]:
    """Yield texts without the fragments that become separate tokens, for learning the vocabulary."""
    for text in corpus:
        for fragment in FRAGMENTS:
            text = text.replace(fragment, "\n" if fragment.startswith((" ", "\n")) else "")
        yield text
