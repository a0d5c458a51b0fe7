"""Agents of published shapes with random weights, made on the device, as checkpoint folders.

Decision: nothing is downloaded. Vocabulary and processor are those of benchmarks/agents (ids below 2,048);
the embeddings keep the published 151,936 rows, so that sizes and the output layer's work are the real ones.
`tiny` builds the same things small, so that the whole path runs on a CPU.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from interleave_thinker.backend.prompts import default_prompt_set
from interleave_thinker.backend.vram.agent_shapes import published_fields

from .agents.model import SMALL, build

AGENT = "Qwen/Qwen3-VL-8B-Instruct"
IDS = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")


def agent_folder(folder: Path, answers: list[str], device: str, tiny: bool) -> Path:
    """A checkpoint folder of an agent: of the published 8B shape in bf16, or small."""
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    build(folder, default_prompt_set(), SMALL._replace(hidden=64, layers=2), answers)
    if tiny:
        return folder
    small = json.loads((folder / "config.json").read_text())
    config = Qwen3VLConfig(**published_fields(AGENT), **{name: small[name] for name in IDS})
    # The parts before rotary embeddings are as published; the rest of the text configuration is the classes'
    # default.
    config.text_config.rope_parameters = {
        "rope_type": "default",
        "rope_theta": 5_000_000.0,
        "mrope_section": [24, 20, 20],
        "mrope_interleaved": True,
    }
    model: Any = made(lambda: Qwen3VLForConditionalGeneration(config), device)
    model.generation_config.eos_token_id = json.loads((folder / "generation_config.json").read_text())[
        "eos_token_id"
    ]
    model.generation_config.pad_token_id = 0
    model.save_pretrained(folder)
    del model
    emptied(device)
    return folder


def made(build_one: Any, device: str) -> Any:
    """Return a module built on the device in bf16, with matrices from N(0, 0.02).

    Deep random models stay finite at this scale.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(device), torch.no_grad():
            module = build_one()
            for weight in module.parameters():
                if weight.dim() > 1:
                    weight.normal_(0, 0.02)
    finally:
        torch.set_default_dtype(before)
    return module.eval().requires_grad_(False)


def emptied(device: str) -> None:
    """Give back what the allocator keeps."""
    import gc

    gc.collect()
    if device.startswith("cuda"):
        torch.cuda.empty_cache()
