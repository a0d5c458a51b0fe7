"""Builds a tiny Qwen3-VL checkpoint with its own vocabulary and teaches it two verdicts in seconds.

A light image is a success, a dark one is not. This is enough to test what depends on a real verdict in a real
reply.
"""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from PIL import Image
from support.made_once import made_once

from interleave_thinker import Message, Picture, Reply, ReplySettings
from interleave_thinker.research.tinyworld.models.recipes import (
    ImageTokens,
    learn_processor,
    rotary,
    save_untrained,
)

ACCEPTED = (
    '<think>light</think>\n\n<answer>{"previous_step_success": true, "refine_prompt": "a light '
    'page"}</answer>'
)
REFUSED = (
    '<think>dark</think>\n\n<answer>{"previous_step_success": false, "refine_prompt": "a light '
    'page"}</answer>'
)
QUESTION = "Is it light?"
SIZE = (48, 48)
WATCH = ReplySettings(max_tokens=60, watch_verdict=True)
HELD = ReplySettings(max_tokens=60, watch_verdict=True, grammar="verdict")
PLAIN = ReplySettings(max_tokens=60)


def page(grey: int, size: tuple[int, int] = SIZE) -> Picture:
    """Return an image of one shade, 0 (dark) to 255 (light)."""
    return Picture(Image.new("RGB", size, (grey, grey, grey)))


def question(*grey: int, text: str = QUESTION) -> list[Message]:
    """Return one turn: images of these shades, then the text."""
    return [Message(role="user", content=(*(page(value) for value in grey), text))]


@functools.cache
def alike(reply: Reply) -> Reply:
    """Return what equals a reply with the same text, and a P(success) that differs by rounding.

    Common beginnings of prompts are read once: the last digits depend on the question before and on the CPU.
    """
    probability = reply.probability and pytest.approx(reply.probability, rel=1e-4)
    return reply.model_copy(update={"probability": probability})


def taught_checkpoint(base: Path) -> Path:
    """Return the taught checkpoint, created once for all test modules of a session."""

    def make(folder: Path) -> None:
        assert teach_verdicts(build_checkpoint(folder / "tiny")) < 0.05

    return made_once(base, "taught", make) / "tiny"


@functools.cache
def two_adapters(base: Path) -> tuple[Path, Path]:
    """Return two adapters for it, each of which changes its replies."""
    checkpoint = taught_checkpoint(base)

    def make(folder: Path) -> None:
        for seed, name in enumerate(("one", "two"), 1):
            build_adapter(checkpoint, folder / name, seed, 0.5)

    folder = made_once(base, "adapters", make)
    return folder / "one", folder / "two"


def build_checkpoint(folder: Path, patch: int = 16, merge: int = 1) -> Path:
    """Save a checkpoint with random weights (about 0.4 M) to `folder`.

    `merge` by `merge` patches with a side of `patch` pixels form a token.
    """
    processor = learn_processor(
        [ACCEPTED, REFUSED, QUESTION, "true false True False"] * 4,
        420,
        ImageTokens((48 * 48, 48 * 48), patch, merge),
    )
    text = {
        "vocab_size": len(processor.tokenizer), "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "max_position_embeddings": 8192, "initializer_range": 0.08,
        "rope_parameters": rotary(10000.0, 2, 3, 3),
    }  # fmt: skip
    vision = {
        "depth": 1, "hidden_size": 48, "intermediate_size": 96, "num_heads": 3,
        "num_position_embeddings": 9, "deepstack_visual_indexes": [0], "initializer_range": 0.08,
    }  # fmt: skip
    return save_untrained(folder, processor, text, vision, seed=0)


def teach_verdicts(folder: Path, steps: int = 120) -> float:
    """Train the checkpoint to answer QUESTION by the lightness of the image, and return the last loss."""
    import torch
    from transformers import AutoProcessor, Qwen3VLForConditionalGeneration

    processor = AutoProcessor.from_pretrained(folder)
    model = Qwen3VLForConditionalGeneration.from_pretrained(folder)
    content = [{"type": "image"}, {"type": "text", "text": QUESTION}]
    prompt = processor.apply_chat_template(
        [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
    )
    pages = [(240, ACCEPTED), (20, REFUSED), (200, ACCEPTED), (60, REFUSED)]
    batch = processor(
        text=[f"{prompt}{answer}<|im_end|>" for _, answer in pages],
        images=[Image.new("RGB", SIZE, (grey, grey, grey)) for grey, _ in pages],
        return_tensors="pt",
        padding=True,
    )
    one = processor(text=[prompt], images=[Image.new("RGB", SIZE)], return_tensors="pt")
    labels = batch["input_ids"].clone()
    labels[batch["attention_mask"] == 0] = -100
    labels[:, : one["input_ids"].shape[1]] = -100
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loss = torch.tensor(0.0)
    for _ in range(steps):
        loss = model(**batch, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.save_pretrained(folder)
    return loss.item()


def build_adapter(checkpoint: Path, folder: Path, seed: int, scale: float) -> Path:
    """Save a LoRA adapter with random weights to `folder`."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import Qwen3VLForConditionalGeneration

    model = Qwen3VLForConditionalGeneration.from_pretrained(checkpoint)
    config = LoraConfig(r=4, target_modules=r".*language_model.*\.(q_proj|v_proj|up_proj|down_proj)")
    adapted = get_peft_model(model, config)
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=scale)
    adapted.save_pretrained(str(folder))
    return folder
