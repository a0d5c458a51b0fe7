"""GRPO training of the tiny critic: it learns, resumes after a kill, and leaves a usable checkpoint."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("trl", reason='training needs: pip install ".[training]"')

from support.short_trainings import GRPO, AtStep, Killed, die, grpo, moved, weights
from support.small_grpo import SMALL, recipe_settings, run

from interleave_thinker.backend.core.errors import TrainingError
from interleave_thinker.tinyworld import checkpoint
from interleave_thinker.training.stages.grpo import all_dead
from interleave_thinker.training.trainer.resume import is_whole, newest_checkpoint
from interleave_thinker.training.trainer.saving import merge


def test_a_training_in_which_all_groups_are_dead_is_noticed() -> None:
    assert all_dead([{"reward/dead": 1.0}, {"loss": 0.0}, {"reward/dead": 1.0}])
    assert not all_dead([{"reward/dead": 1.0}, {"reward/dead": 0.5}]) and not all_dead([{"loss": 0.0}])


def test_a_training_writes_a_critic_its_log_and_a_card(reinforced: Path) -> None:
    from interleave_thinker.backend.models.chat import open_chat

    final = reinforced / "final"
    assert weights(final).keys() == weights(checkpoint("critic")).keys()
    assert open_chat(f"transformers:{final}", device="cpu").trained.card.role == "critic"  # type: ignore[union-attr]
    (shown,) = [line for line in (reinforced / "lines").read_text().splitlines() if "step 1/4 | " in line]
    for part in ("reward", "format", "accuracy", "semantic", "quality", "spread", "dead", "tokens"):
        assert f" {part} " in shown, part
    assert "tokens/s" in shown and "s/step" in shown and " left" in shown
    checks = json.loads((reinforced / "checks.json").read_text())
    assert sorted(map(int, checks)) == [0, 2, 4]
    lines = (reinforced / "rollouts" / "step_000000.jsonl").read_text().splitlines()
    assert len(lines) == 4 and all(0 <= json.loads(line)["overall"] <= 1 for line in lines)
    state = json.loads((reinforced / "steps" / "checkpoint-4" / "trainer_state.json").read_text())
    first, second = state["log_history"][:2]
    assert second["held_out/accuracy"] == checks["2"]["accuracy"] and "held_out/accuracy" not in first
    card = (final / "README.md").read_text()
    assert "| held-out rows | " in card and "- generator: " in card and "Held-out check at step 4: " in card
    assert not [path.name for path in final.iterdir() if path.suffix in (".bin", ".pt", ".pkl")]


def test_a_killed_training_is_resumed(folder: Path, reinforced: Path, tmp_path: Path) -> None:
    with pytest.raises(Killed):
        grpo(folder, tmp_path, AtStep(3, die))
    steps = tmp_path / "steps"
    # A later checkpoint that was being written when the process died.
    shutil.copytree(steps / "checkpoint-2", steps / "checkpoint-4")
    shifted = steps / "checkpoint-4" / "optimizer.pt"
    shifted.write_bytes(shifted.read_bytes()[:-500])
    assert not is_whole(steps / "checkpoint-4")
    assert newest_checkpoint(steps) == steps / "checkpoint-2"
    expected, found = weights(reinforced / "final"), weights(grpo(folder, tmp_path))
    assert all((expected[name] - found[name]).abs().max() < 1e-5 for name in expected)
    for name in ("checks.json", "rollouts/step_000002.jsonl"):
        assert (tmp_path / name).read_text() == (reinforced / name).read_text(), name


def test_a_finished_training_is_kept_and_another_one_rejected(folder: Path, reinforced: Path) -> None:
    lines: list[str] = []
    assert grpo(folder, reinforced, lines.append) == reinforced / "final"
    assert lines == ["this training is finished"]
    with pytest.raises(TrainingError, match="different learning_rate"):
        grpo(folder, reinforced, learning_rate=2e-4)


def test_the_adapter_of_a_fine_tuning_is_reinforced(
    folder: Path, base: Path, tuned: Path, tmp_path: Path
) -> None:
    given = tuned / "final"
    short = {"learning_rate": 1e-30, "beta": 0.04, "rollouts": 1, "updates": 1}
    settings = GRPO.model_copy(update={"adapter": str(given), **short})
    final = run(folder / "critic_rl.jsonl", tmp_path, settings, model=base)
    before, after = (weights(one, "adapter_model.safetensors") for one in (given, final))
    assert before.keys() == after.keys() and all(before[name].equal(after[name]) for name in before)
    # The reference is a copy of the given adapter, which is not saved.
    assert not [path for path in tmp_path.rglob("*.safetensors") if path.parent.name == "ref"]


def test_one_command_trains_a_critic_from_a_recipe(folder: Path, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from interleave_thinker.cli.train.command import app

    told = "--config tiny --num-generations 2 --set rollouts=1 --set updates=1 --set prompts=2"
    small = ("per_device_train_batch_size=4", "max_completion_length=16", "check_rows=2")
    given = ["critic-grpo", *told.split(), "--data", str(folder / "critic_rl.jsonl")]
    for one in (*small, "collapse_threshold=0"):
        given += ["--set", one]
    result = CliRunner().invoke(app, [*given, "--out", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[-1] == f"checkpoint: {tmp_path / 'run' / 'final'}"
    assert list((tmp_path / "run" / "tensorboard").rglob("events*"))
    assert (tmp_path / "run" / "final" / "prompt_set").is_dir()


@pytest.mark.parametrize(("name", "beta"), [("one-24gb", 1e-3), ("one-80gb", 0.0)])
def test_a_large_recipe_runs_in_small(name: str, beta: float, folder: Path, tmp_path: Path) -> None:
    """With a KL term, a model that is not the reference at the first step is an error."""
    recipe = recipe_settings(name, "critic-grpo")
    assert recipe.bf16 and recipe.lora_r and recipe.freeze_vision
    if recipe.load_in_4bit:
        pytest.importorskip("bitsandbytes", reason="quantisation needs bitsandbytes")
    kept = GRPO.model_dump(include={"device", "tensorboard", "check_rows", "check_batch", "prompts"})
    kept |= SMALL.model_dump(include={"num_generations", "max_completion_length", "collapse_threshold"})
    changes = {"rollouts": 1, "temperature": 1.4, "beta": beta, "per_device_train_batch_size": 4}
    settings = recipe.model_copy(update=kept | changes)
    adapter = run(folder / "critic_rl.jsonl", tmp_path / "run", settings)
    learned = weights(adapter, "adapter_model.safetensors")
    assert learned and all("language_model" in key for key in learned)
    # B starts at zero: what is not zero was trained. A rollout whose groups are all dead teaches nothing.
    lines = (tmp_path / "run" / "rollouts" / "step_000000.jsonl").read_text().splitlines()
    rewards = [json.loads(line)["overall"] for line in lines]
    alive = any(max(group) - min(group) > 1e-6 for group in (rewards[:4], rewards[4:]))
    changed = any(one.float().abs().max() > 0 for key, one in learned.items() if "lora_B" in key)
    assert len(rewards) == 8 and changed == alive
    merged = merge(checkpoint("critic"), adapter, tmp_path / "merged")
    assert (merged / "prompt_set").is_dir()
    assert all("language_model" in key and "_proj" in key for key in moved(checkpoint("critic"), merged))
    assert {one.dtype for one in weights(merged).values()} == {
        one.dtype for one in weights(checkpoint("critic")).values()
    }
