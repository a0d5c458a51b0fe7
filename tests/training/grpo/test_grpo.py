"""GRPO training of the tiny critic: it learns, resumes after a kill, and leaves a usable checkpoint."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("trl", reason='training needs: pip install "interleave-thinker[training]"')

from support.small_grpo import SMALL, make_data, recipe_settings, run, weights

from interleave_thinker.backend.core.errors import TrainingError
from interleave_thinker.tinyworld import checkpoint
from interleave_thinker.training.reward.critic_reward import RewardSettings
from interleave_thinker.training.trainer.resume import is_whole, newest_checkpoint
from interleave_thinker.training.trainer.saving import merge


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data(tmp_path_factory.mktemp("rl"))


@pytest.fixture(scope="module")
def straight(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    lines: list[str] = []
    out = tmp_path_factory.mktemp("straight")
    run(data, out, log=lines.append)
    return out, lines


def test_a_training_in_which_all_groups_are_dead_says_so(
    data: Path, straight: tuple[Path, list[str]], tmp_path: Path
) -> None:
    lines: list[str] = []
    greedy = SMALL.model_copy(update={"temperature": 0.01, "rollouts": 1, "save_every": 1})
    reward = RewardSettings(semantic_weight=0, quality_weight=0)
    run(data, tmp_path, greedy, log=lines.append, reward=reward)
    (warning,) = [line for line in lines if "nothing was learned" in line]
    assert "temperature" in warning
    assert not any("nothing was learned" in line for line in straight[1])


def test_a_training_writes_a_critic_its_log_and_a_card(straight: tuple[Path, list[str]]) -> None:
    out, lines = straight
    from interleave_thinker.backend.core.pictures import Picture
    from interleave_thinker.backend.models.chat import ReplySettings, open_chat
    from interleave_thinker.backend.story.agents.critic import Critic

    before, after = weights(checkpoint("critic")), weights(out / "final")
    assert before.keys() == after.keys()
    assert any((after[name].float() - before[name].float()).abs().max() > 1e-5 for name in before)
    chat = open_chat(f"transformers:{out / 'final'}", device="cpu", dtype="float32")
    page = Picture.white((96, 96))
    assert (
        Critic(chat, settings=ReplySettings(max_tokens=200))
        .judge(None, page, "a sea page", "a sea page")
        .reasoning
    )
    shown = [line for line in lines if line.startswith("step 1/4")]
    assert "semantic" in shown[0] and "accepted" in shown[0] and "left" in shown[0]
    checks = json.loads((out / "checks.json").read_text())
    assert sorted(map(int, checks)) == [0, 2, 4]
    rollout = [json.loads(line) for line in (out / "rollouts" / "step_000000.jsonl").read_text().splitlines()]
    assert len(rollout) == 8 and all(0 <= sample["overall"] <= 1 for sample in rollout)
    state = json.loads((out / "steps" / "checkpoint-4" / "trainer_state.json").read_text())
    first, second = state["log_history"][:2]
    split = [first[f"seconds/{part}"] for part in ("rollout", "reward", "update")]
    assert all(part > 0 for part in split) and sum(split) == pytest.approx(first["seconds/step"])
    assert second["seconds/update"] == second["seconds/step"] and "seconds/rollout" not in second
    assert second["held_out/accuracy"] == checks["2"]["accuracy"] and "held_out/accuracy" not in first
    card = (out / "final" / "README.md").read_text()
    assert "| held-out rows | " in card and "- generator: " in card and "Held-out check at step 4: " in card
    assert not [path.name for path in (out / "final").iterdir() if path.suffix in (".bin", ".pt", ".pkl")]
    assert json.loads((out / "final" / "agent.json").read_text())["role"] == "critic"


class Killed(BaseException):
    """Represents a killed process: the exception is not caught."""


def test_a_killed_training_resumes_to_the_same_weights(
    data: Path, straight: tuple[Path, list[str]], tmp_path: Path
) -> None:
    def killer(line: str) -> None:
        if line.startswith("step 3/"):
            raise Killed

    with pytest.raises(Killed):
        run(data, tmp_path, log=killer)
    steps = tmp_path / "steps"
    # A later checkpoint that was being written when the process died.
    shutil.copytree(steps / "checkpoint-2", steps / "checkpoint-4")
    shifted = steps / "checkpoint-4" / "optimizer.pt"
    shifted.write_bytes(shifted.read_bytes()[:-500])
    assert not is_whole(steps / "checkpoint-4")
    assert newest_checkpoint(steps) == steps / "checkpoint-2"
    final = run(data, tmp_path)
    expected, found = weights(straight[0] / "final"), weights(final)
    assert all((expected[name] - found[name]).abs().max() < 1e-5 for name in expected)
    assert json.loads((tmp_path / "checks.json").read_text()) == json.loads(
        (straight[0] / "checks.json").read_text()
    )


def test_a_finished_training_is_kept_and_another_one_rejected(
    data: Path, straight: tuple[Path, list[str]]
) -> None:
    out, _ = straight
    lines: list[str] = []
    made = (out / "final" / "model.safetensors").stat().st_mtime_ns
    assert run(data, out, log=lines.append) == out / "final" and lines == ["this training is finished"]
    assert (out / "final" / "model.safetensors").stat().st_mtime_ns == made
    with pytest.raises(TrainingError, match="different learning_rate"):
        run(data, out, SMALL.model_copy(update={"learning_rate": 2e-4}))


def test_a_lora_is_trained_with_a_reference_that_is_the_start_and_merged(data: Path, tmp_path: Path) -> None:
    import torch

    lines: list[str] = []
    settings = SMALL.model_copy(update={"lora_r": 4, "beta": 1e-3, "rollouts": 1, "freeze_vision": True})
    adapter = run(data, tmp_path / "run", settings, lines.append)
    assert any("of 1," in line or " parameters" in line for line in lines)
    assert (adapter / "adapter_model.safetensors").is_file() and (adapter / "prompt_set").is_dir()
    merged = merge(checkpoint("critic"), adapter, tmp_path / "merged")
    old, new = weights(checkpoint("critic")), weights(merged)
    assert old.keys() == new.keys() and {tensor.dtype for tensor in new.values()} == {torch.float16}
    moved = [name for name in old if not torch.equal(old[name], new[name])]
    assert all("language_model" in name and "_proj" in name for name in moved)
    parts = merge(checkpoint("critic"), adapter, tmp_path / "parts", shard="500KB")
    assert len(list(parts.glob("*.safetensors"))) > 1 and (parts / "prompt_set").is_dir()
    assert (parts / "model.safetensors.index.json").is_file() and not list(parts.glob("*.bin"))


def test_one_command_trains_a_critic_from_a_recipe(data: Path, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from interleave_thinker.cli.train.command import app

    told = (
        "--config tiny --set rollouts=1 --set prompts=2 --num-generations 4 --set check_rows=4 "
        "--set per_device_train_batch_size=8 --set collapse_threshold=0"
    )
    given = ["critic-grpo", *told.split(), "--data", str(data), "--out", str(tmp_path / "run")]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 0, result.output
    said = result.output.splitlines()
    assert said[-1] == f"checkpoint: {tmp_path / 'run' / 'final'}"
    (live,) = [line for line in said if line.startswith("step 1/1 | ")]
    for part in (
        "reward",
        "format",
        "accuracy",
        "semantic",
        "quality",
        "spread",
        "dead",
        "accepted",
        "tokens",
    ):
        assert f" {part} " in live, part
    for part in ("tokens/s", "s/step", "0:00 left"):
        assert part in live, part
    assert list((tmp_path / "run" / "tensorboard").rglob("events*"))
    assert (tmp_path / "run" / "final" / "prompt_set").is_dir()


@pytest.mark.parametrize("name", ["one-24gb", "one-80gb"])
def test_a_large_recipe_runs_in_small(name: str, data: Path, tmp_path: Path) -> None:
    recipe = recipe_settings(name, "critic-grpo")
    assert recipe.bf16 and recipe.lora_r and recipe.freeze_vision
    kept = SMALL.model_dump(
        include={
            "device",
            "max_completion_length",
            "check_rows",
            "check_batch",
            "save_every",
            "collapse_threshold",
        }
    )
    changes = {
        **kept,
        "rollouts": 1,
        "prompts": 2,
        "num_generations": 4,
        "temperature": 1.4,
        "tensorboard": False,
    }
    if recipe.load_in_4bit:
        pytest.importorskip("bitsandbytes", reason="quantisation needs bitsandbytes")
    adapter = run(data, tmp_path / "run", recipe.model_copy(update=changes))
    learned = weights(adapter, "adapter_model.safetensors")
    assert learned and all("language_model" in key for key in learned)
    merged = weights(merge(checkpoint("critic"), adapter, tmp_path / "merged"))
    assert merged.keys() == weights(checkpoint("critic")).keys()
    # B starts at zero: what is not zero was trained. A rollout whose groups are all dead teaches nothing.
    lines = (tmp_path / "run" / "rollouts" / "step_000000.jsonl").read_text().splitlines()
    rewards = [json.loads(line)["overall"] for line in lines]
    alive = any(max(group) - min(group) > 1e-6 for group in (rewards[:4], rewards[4:]))
    moved = any(one.float().abs().max() > 0 for key, one in learned.items() if "lora_B" in key)
    assert len(rewards) == 8 and moved == alive
