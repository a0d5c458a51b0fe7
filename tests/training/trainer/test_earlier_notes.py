"""The record of a training that 0.2.0 began is that of the same training today."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import BaseModel

from interleave_thinker.backend.core.errors import TrainingError
from interleave_thinker.training.stages import grpo_settings as grpo
from interleave_thinker.training.stages import sft
from interleave_thinker.training.trainer.resume import claim_run

BOTH = """
{"weight_decay": 1e-06, "adam_beta2": 0.999, "optim": "adamw_torch", "lora_r": 0, "lora_alpha": 32,
"lora_dropout": 0.0, "load_in_4bit": false, "bf16": false, "gradient_checkpointing": true, "image_pixels":
1048576, "seed": 0, "max_steps": null}
"""
TUNING = """
{"learning_rate": 2e-05, "warmup_steps": 0.1, "freeze_vision": true, "num_train_epochs": 2.0,
"per_device_train_batch_size": 32, "gradient_accumulation_steps": 1, "max_length": 16384,
"train_sampling_strategy": "random", "loss_rows": null, "early_stopping_patience": null}
"""
REINFORCEMENT = """
{"learning_rate": 2e-06, "warmup_steps": 0.0, "freeze_vision": false, "lr_scheduler_type": "cosine",
"num_train_epochs": 1.0, "rollouts": null, "prompts": 16, "num_generations": 8, "updates": 2,
"per_device_train_batch_size": 8, "max_prompt_length": 16384, "max_completion_length": 4096, "temperature":
1.0, "beta": 0.0, "epsilon": 0.2, "epsilon_high": 0.3, "delta": null, "scale_rewards": "group", "use_vllm":
false, "vllm_mode": "colocate", "check_rows": 64}
"""
"""Settings in `training.json` of 0.2.0: all defaults, without those that may change."""


@pytest.mark.parametrize(
    ("note", "settings", "free"),
    [
        (REINFORCEMENT, grpo.GrpoTraining(), grpo.FREE_TO_CHANGE),
        (TUNING, sft.SftTraining(), sft.FREE_TO_CHANGE),
    ],
    ids=["reinforcement", "tuning"],
)
def test_an_old_training_is_resumed(note: str, settings: BaseModel, free: set[str], tmp_path: Path) -> None:
    written = json.dumps({"stage": "any", **json.loads(BOTH), **json.loads(note)})
    (tmp_path / "training.json").write_text(written)
    claim_run(tmp_path, {"stage": "any", **settings.model_dump(mode="json", exclude=free)})
    assert (tmp_path / "training.json").read_text() == written
    other = settings.model_copy(update={"learning_rate": 1.0}).model_dump(mode="json", exclude=free)
    with pytest.raises(TrainingError, match="different learning_rate"):
        claim_run(tmp_path, {"stage": "any", **other})
