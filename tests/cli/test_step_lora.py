"""`run --set generator.lora_folder=...`: a LoRA that one step of a plan file names."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from support import tiny_pipelines
from support.cli_calls import call

from interleave_thinker import Picture, load_trajectory

PART = "unet.down_blocks.1.attentions.0.transformer_blocks.0.attn1.to_v"


def write_lora(path: Path, seed: int) -> None:
    """Write a random LoRA for the tiny pipeline."""
    noise = torch.Generator().manual_seed(seed)
    weights = {"lora_A": torch.randn(4, 16, generator=noise), "lora_B": torch.randn(16, 4, generator=noise)}
    path.parent.mkdir(exist_ok=True)
    save_file({f"{PART}.{name}.weight": 4 * one for name, one in weights.items()}, path)


def test_a_lora_of_one_step_of_a_plan_file(tmp_path: Path) -> None:
    model = tiny_pipelines.stable_diffusion(tmp_path / "model")
    loras, out = tmp_path / "loras", tmp_path / "out"
    write_lora(loras / "ink.safetensors", 0)
    own = ({}, {"lora": "ink.safetensors", "lora_strength": 0.8}, {})
    steps = [
        {"number": number, "prompt": "a boat", "settings": {"seed": 7, "source": "text", **one}}
        for number, one in enumerate(own, 1)
    ]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"steps": steps}))
    assert call("plan", "--lint", plan).exit_code == 0, "the plan check reads it"
    line = [
        *("run", "a boat", "--out", out, "--plan", plan, "--critic", "none"),
        *("--generator", f"diffusers:{model}", "--steps", 2, "--size", "64x64", "--device", "cpu"),
    ]

    def drawn() -> list[Picture | None]:
        result = call(*line, "--set", f"generator.lora_folder={loras}")
        assert result.exit_code == 0, result.output
        return [one.image for one in load_trajectory(out).results]

    first = drawn()
    assert first[0] == first[2] != first[1]
    records = len(list((out / "attempts").iterdir()))
    assert records == 2 and drawn() == first and len(list((out / "attempts").iterdir())) == records
    write_lora(loras / "ink.safetensors", 1)
    second = drawn()
    assert (second[0], second[2]) == (first[0], first[2]) and second[1] != first[1]
    without = call(*line)
    said = f"{without.output}{without.exception}"
    assert without.exit_code != 0 and "Step 2: The LoRA 'ink.safetensors' cannot be found" in said
