"""The record of a training from an earlier version is read with today's names of settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from interleave_thinker.backend.errors import TrainingError
from interleave_thinker.training.grpo import settings as grpo
from interleave_thinker.training.sft import settings as sft
from interleave_thinker.training.trainer.resume import claim_run

MODEL = """
"weight_decay": 1e-06, "second_moment": 0.999, "lora_alpha": 32, "lora_dropout": 0.0,
"gradient_checkpointing": true, "image_pixels": 1048576, "seed": 0
"""
REINFORCEMENT = """
"rate": 2e-06, "warm_up": 0.0, "optimizer": "adamw_8bit", "lora_rank": 4, "quantization": "none",
"freeze_vision": false, "precision": "bf16", "schedule": "constant", "epochs": 1.0, "rollouts": null,
"max_steps": null, "prompts": 16, "group": 8, "updates": 2, "micro_batch": 8, "prompt_tokens": 16384,
"answer_tokens": 4096, "temperature": 1.0, "kl": 0.01, "clip_low": 0.2, "clip_high": 0.3, "clip_dual": 3.0,
"scale": "group", "vllm": "server", "check_rows": 64
"""
TUNING = """
"rate": 2e-05, "warm_up": 0.1, "optimizer": "adamw", "lora_rank": 0, "quantization": "none",
"freeze_vision": true, "precision": "fp32", "epochs": 2.0, "max_steps": 9, "batch": 32, "accumulation": 1,
"cutoff": 16384, "ordered": true, "loss_rows": 4, "patience": 2
"""


@pytest.mark.parametrize(
    ("note", "settings", "free"),
    [
        (
            REINFORCEMENT,
            grpo.GrpoTraining(
                use_vllm=True,
                vllm_mode="server",
                lr_scheduler_type="constant_with_warmup",
                delta=3.0,
                beta=0.01,
                optim="adamw_8bit",
                lora_r=4,
                bf16=True,
            ),
            grpo.FREE_TO_CHANGE,
        ),
        (
            TUNING,
            sft.SftTraining(
                train_sampling_strategy="sequential", loss_rows=4, early_stopping_patience=2, max_steps=9
            ),
            sft.FREE_TO_CHANGE,
        ),
    ],
)
def test_a_training_that_earlier_code_began_is_resumed(
    note: str, settings: BaseModel, free: set[str], tmp_path: Path
) -> None:
    written = f'{{"stage": "any", {MODEL}, {note}}}'
    (tmp_path / "training.json").write_text(written)
    claim_run(tmp_path, {"stage": "any", **settings.model_dump(mode="json", exclude=free)})
    assert (tmp_path / "training.json").read_text() == written
    other: dict[str, Any] = settings.model_copy(update={"learning_rate": 1.0}).model_dump(exclude=free)
    with pytest.raises(TrainingError, match="different learning_rate"):
        claim_run(tmp_path, {"stage": "any", **other})


@pytest.mark.parametrize("value", ["[1]", '{"a": 1}', "null", '"unknown"'])
@pytest.mark.parametrize("name", ["optimizer", "precision", "vllm"])
def test_a_record_with_an_unknown_value_is_another_training(name: str, value: str, tmp_path: Path) -> None:
    (tmp_path / "training.json").write_text(f'{{"stage": "any", "{name}": {value}}}')
    with pytest.raises(TrainingError, match="contains a training with different"):
        claim_run(tmp_path, {"stage": "any", "optim": "adamw_torch", "bf16": False, "use_vllm": False})
