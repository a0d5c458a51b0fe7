"""The built-in recipes without a GPU: counted on the meta device, estimated, and marked as untested."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError
from typer.testing import CliRunner

pytest.importorskip("trl", reason='training needs: pip install "interleave-thinker[training]"')

from interleave_thinker.backend.errors import SettingsError
from interleave_thinker.cli.options.training import folder_of
from interleave_thinker.cli.train.command import app
from interleave_thinker.tinyworld.lab.ablation.settings import AblationSettings
from interleave_thinker.training.gate.regression_gate import GateSettings
from interleave_thinker.training.grpo.settings import GrpoTraining
from interleave_thinker.training.recipes.estimates.doctor import lines
from interleave_thinker.training.recipes.recipe import FOLDER, STAGES, about, read_recipe, recipe_names
from interleave_thinker.training.reward.critic_reward import RewardSettings
from interleave_thinker.training.reward.redraws.drawing_settings import DrawingSettings
from interleave_thinker.training.sft.train import SftTraining

EIGHT_B = 8_767_123_696
VISION = 576_388_336
ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "pyproject.toml").is_file())
GPU_MEMORY = {"paper-8b": 80, "one-80gb": 80, "one-24gb": 24}


@lru_cache
def told(name: str) -> tuple[str, ...]:
    return tuple(lines(name, None, weights=True, folder_of=folder_of))


def stages(name: str) -> dict[str, list[str]]:
    """Return the doctor's lines of each stage."""
    found: dict[str, list[str]] = {}
    stage = ""
    for line in told(name):
        stage = next((one for one in STAGES if line.startswith(f"  {one}: ")), stage)
        found.setdefault(stage, []).append(line)
    return found


def counted(section: list[str]) -> tuple[int, int]:
    """Return (trained parameters, all parameters) from the doctor's lines."""
    found = re.search(r"trains ([\d,]+) of ([\d,]+) parameters \(counted\)", "\n".join(section))
    assert found
    return int(found.group(1).replace(",", "")), int(found.group(2).replace(",", ""))


@pytest.mark.parametrize("name", GPU_MEMORY)
def test_large_recipes_have_estimates_and_are_marked_as_not_tested(name: str) -> None:
    assert any("Not tested at this size" in line for line in about(name))
    assert any("Not tested at this size" in line for line in told(name))
    sections = stages(name)
    for stage in STAGES:
        section = sections[stage]
        trained, whole = counted(section)
        parts = [re.search(r"^      .+: ([\d,]+) of ([\d,]+)$", line) for line in section]
        listed = [part for part in parts if part]
        assert sum(int(part.group(1).replace(",", "")) for part in listed) == trained
        assert sum(int(part.group(2).replace(",", "")) for part in listed) == whole
        needed = re.search(r"about ([\d.]+) GB VRAM per device \(estimated\): .*weights", "\n".join(section))
        assert needed and float(needed.group(1)) < 0.9 * GPU_MEMORY[name]


def test_the_published_recipes_train_the_published_parameters() -> None:
    sections = stages("paper-8b")
    assert counted(sections["planner-sft"]) == (EIGHT_B - VISION, EIGHT_B)
    assert counted(sections["critic-sft"]) == (EIGHT_B - VISION, EIGHT_B)
    assert counted(sections["critic-grpo"]) == (EIGHT_B, EIGHT_B)


def test_the_tiny_recipe_fits_this_machine() -> None:
    assert all(any("fits here" in line for line in stages("tiny")[stage]) for stage in STAGES)


@pytest.mark.parametrize("name", [*GPU_MEMORY, "tiny"])
def test_the_documented_estimates_are_those_of_the_doctor(name: str) -> None:
    table = (ROOT / "docs/how-to/training/hardware.md").read_text(encoding="utf-8")
    documented: dict[str, str] = {}
    for found in re.finditer(rf"^\| `{name}`[^|]*\|([^|]+)\| ([\d.]+) GB \|", table, re.MULTILINE):
        documented |= {stage: found.group(2) for stage in re.findall(r"`([\w-]+)`", found.group(1))}
    estimated = {
        stage: match.group(1)
        for stage, section in stages(name).items()
        if (match := re.search(r"about ([\d.]+) GB V?RAM", "\n".join(section)))
    }
    assert set(documented) == set(STAGES)
    import torch

    if torch.cuda.is_available():
        pytest.skip("the share of vLLM follows the memory of this machine's GPU")
    assert documented == estimated


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


def test_a_custom_recipe_is_estimated_as_far_as_possible(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("critic-sft:\n  model: Qwen/Qwen3-VL-2B-Instruct\n  lora_r: 16\n  gate_rows: 10\n")
    said = CliRunner().invoke(app, ["doctor", "--config", str(own)])
    assert said.exit_code == 0 and "LoRA of rank 16" in said.output and "planner-sft" not in said.output
    own.write_text("critic-sft:\n  model: Qwen/Qwen3-VL-2B-Instruct\n  lora_rnak: 16\n")
    said = CliRunner().invoke(app, ["doctor", "--config", str(own)])
    assert isinstance(said.exception, SettingsError) and "does not have an option 'lora_rnak'" in str(
        said.exception
    )


def test_estimates_depend_on_the_model() -> None:
    section = "\n".join(stages("paper-8b")["critic-grpo"])
    # 2 x 4096 patches-in-tokens of four patches each, two answers at a time; embeddings and output layer are
    # one unit.
    vision = re.search(r"activations of the vision tower ([\d.]+)", section)
    gathered = re.search(r"gathered from the other devices ([\d.]+)", section)
    assert vision and float(vision.group(1)) > 0.5
    assert gathered and float(gathered.group(1)) == pytest.approx(3.3, abs=0.3)
    assert "vision tower" not in "\n".join(
        line for line in stages("paper-8b")["critic-sft"] if "estimated" in line
    )


def test_every_recipe_states_its_purpose() -> None:
    assert set(recipe_names()) == {*GPU_MEMORY, "tiny"}
    assert all(about(name) for name in recipe_names())


SETTINGS = (
    SftTraining,
    GrpoTraining,
    RewardSettings,
    DrawingSettings,
    GateSettings,
    AblationSettings,
)


@pytest.mark.parametrize("model", SETTINGS)
def test_no_setting_is_endless(model: type[BaseModel]) -> None:
    numbers = [name for name, field in model.model_fields.items() if field.annotation is float]
    assert numbers
    for name in numbers:
        for value in ("inf", "nan"):
            with pytest.raises(ValidationError, match=name):
                model.model_validate({name: float(value)})
