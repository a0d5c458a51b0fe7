"""The built-in recipes without a GPU: counted on the meta device, and read by the launcher."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ValidationError

pytest.importorskip("trl", reason='training needs: pip install ".[training]"')

from interleave_thinker.backend.models.vram.shapes import SHAPES
from interleave_thinker.research.tinyworld.ablation.training import AblationSettings
from interleave_thinker.training.gate.regression_gate import GateSettings
from interleave_thinker.training.recipes.recipe import FOLDER, read_recipe
from interleave_thinker.training.reward.critic_reward import RewardSettings
from interleave_thinker.training.reward.redrawer import DrawingSettings
from interleave_thinker.training.stages.grpo_settings import GrpoTraining
from interleave_thinker.training.stages.sft import SftTraining
from interleave_thinker.training.trainer.model_loading import ModelParts, count_parameters, empty_model

EIGHT_B = 8_767_123_696
VISION = 576_388_336


@pytest.mark.parametrize(("stage", "trained"), [("critic-sft", EIGHT_B - VISION), ("critic-grpo", EIGHT_B)])
def test_the_published_recipe_trains_the_published_parameters(stage: str, trained: int) -> None:
    from transformers import Qwen3VLConfig

    values = read_recipe("paper-8b", stage)
    model = empty_model(Qwen3VLConfig(**SHAPES[values["model"]]))
    if values["freeze_vision"]:
        ModelParts(model).freeze_seeing()
    assert count_parameters(model) == (trained, EIGHT_B)


@pytest.mark.parametrize("name", ["accelerate-ddp", "accelerate-fsdp2", "accelerate-zero3"])
def test_the_launchers_files_are_read_by_the_launcher(name: str) -> None:
    from accelerate.commands.config.config_args import load_config_from_file
    from transformers import Qwen3VLForConditionalGeneration

    config = load_config_from_file(str(FOLDER / f"{name}.yaml"))
    assert config.num_processes == read_recipe("paper-8b", "critic-grpo")["devices"]
    if name == "accelerate-fsdp2":
        wrapped = set(config.fsdp_config["fsdp_transformer_layer_cls_to_wrap"].split(","))
        assert wrapped == set(Qwen3VLForConditionalGeneration._no_split_modules or ())
    elif name == "accelerate-zero3":
        assert config.deepspeed_config["zero_stage"] == 3
    else:
        assert config.distributed_type == "MULTI_GPU"


SETTINGS = (SftTraining, GrpoTraining, RewardSettings, DrawingSettings, GateSettings, AblationSettings)


@pytest.mark.parametrize("model", SETTINGS)
def test_no_setting_is_endless(model: type[BaseModel]) -> None:
    numbers = [name for name, field in model.model_fields.items() if field.annotation is float]
    assert numbers
    for name in numbers:
        for value in ("inf", "nan"):
            with pytest.raises(ValidationError, match=name):
                model.model_validate({name: float(value)})
