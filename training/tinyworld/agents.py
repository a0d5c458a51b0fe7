"""Untrained planner and critic for the tiny world: the real Qwen3-VL classes at about two million weights.

Decisions, measured before (a page in one token a cell is what makes so small a model see): pages are scaled to 48x48
and cut into nine patches; weights start at 1/sqrt(width), without which the vision never breaks through; answers'
fixed fragments and cell names are single tokens, so that an answer is short.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ...backend.prompts import PromptSet
from ...backend.tinyworld.scene import CELLS, IDENTITIES, name_of

if TYPE_CHECKING:
    import torch

SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
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
    "{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
PROMPT_SET = PromptSet(
    planner_text="Plan: {text_input}",
    planner_images="Page: <image> Plan: {text_input}",
    critic="Before: <image> After: <image> Wanted: {original_instruction}. Drawn with: {rewritten_prompt}.",
)
PICTURE_SIDE = 48


def untrained(
    folder: Path, corpus: Iterable[str], layers: int, seed: int, seeing: int = 0, vocabulary: int = 700
) -> Path:
    """Make a checkpoint folder: tokenizer trained on `corpus`, processor, and random weights from `seed`.

    `seeing`, for a critic: pages are seen at this many pixels a side (else PICTURE_SIDE), coloured things are single tokens, so that one look at a cell names what is there, and the
    patch embedding starts at the principal components of page cells (see `_see_cells`).
    """
    import torch
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import (
        PreTrainedTokenizerFast,
        Qwen2VLImageProcessor,
        Qwen3VLConfig,
        Qwen3VLForConditionalGeneration,
        Qwen3VLProcessor,
        Qwen3VLVideoProcessor,
    )

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # pyright: ignore[reportAttributeAccessIssue]
    raw.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=SPECIAL,
        show_progress=False,
    )
    fragments = [*FRAGMENTS, *(NAMES if seeing else [])]
    raw.train_from_iterator(_without_fragments(corpus), trainer)
    raw.add_tokens([AddedToken(text, normalized=False) for text in fragments])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        padding_side="left",
        additional_special_tokens=SPECIAL,
        model_max_length=4096,
        image_token="<|image_pad|>",
        video_token="<|video_pad|>",
        vision_start_token="<|vision_start|>",
        vision_end_token="<|vision_end|>",
    )
    side = seeing or PICTURE_SIDE
    patch = side // 3
    pixels = {"shortest_edge": side**2, "longest_edge": side**2}
    pictures = {
        "size": pixels,
        "patch_size": patch,
        "merge_size": 1,
        "temporal_patch_size": 2,
        "image_mean": [1.0] * 3,
        "image_std": [0.5] * 3,
    }
    processor = Qwen3VLProcessor(
        image_processor=Qwen2VLImageProcessor(**pictures),
        tokenizer=tokenizer,
        video_processor=Qwen3VLVideoProcessor(**pictures),
        chat_template=CHAT_TEMPLATE,
    )
    ids = {name: raw.get_vocab()[name] for name in SPECIAL}
    width = 160
    config = Qwen3VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": width,
            "intermediate_size": 3 * width,
            "num_hidden_layers": layers,
            "num_attention_heads": 5,
            "num_key_value_heads": 5,
            "head_dim": 32,
            "max_position_embeddings": 4096,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "mrope_section": [4, 6, 6],
                "mrope_interleaved": True,
            },
            "initializer_range": 0.08,
            "tie_word_embeddings": True,
            "pad_token_id": ids["<|endoftext|>"],
            "eos_token_id": ids["<|im_end|>"],
        },
        vision_config={
            "depth": 2,
            "hidden_size": 128,
            "intermediate_size": 256,
            "num_heads": 4,
            "patch_size": patch,
            "spatial_merge_size": 1,
            "temporal_patch_size": 2,
            "out_hidden_size": width,
            "num_position_embeddings": 9,
            "deepstack_visual_indexes": [0],
            "initializer_range": 0.08,
        },
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        tie_word_embeddings=True,
    )
    torch.manual_seed(seed)
    model = Qwen3VLForConditionalGeneration(config)
    torch.nn.init.normal_(model.model.visual.pos_embed.weight, std=0.5)
    if seeing:
        _see_cells(model.model.visual.patch_embed.proj)
    model.generation_config.eos_token_id = ids["<|im_end|>"]
    model.generation_config.pad_token_id = ids["<|endoftext|>"]
    model.save_pretrained(folder, safe_serialization=True)
    processor.save_pretrained(folder)
    PROMPT_SET.save(folder / "prompt_set")
    return folder


def _see_cells(embedding: torch.nn.Conv3d) -> None:
    """Set a patch embedding to the principal components of all cells, each of about unit variance.

    From random weights the colours of things were told apart after a few hundred steps, their shapes not at all.
    """
    import torch

    from ...backend.tinyworld.drawing import atlas

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
    """Text as the byte-pair trainer should see it: fragments that will be tokens of their own are cut out."""
    for text in corpus:
        for fragment in FRAGMENTS:
            text = text.replace(fragment, "\n" if fragment.startswith((" ", "\n")) else "")
        yield text
