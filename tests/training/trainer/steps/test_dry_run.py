"""A dry run checks everything that a training checks, estimates its cost, and writes nothing."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import short_trainings
from support.cli_calls import call
from support.made_runs import made_run, say

pytest.importorskip("trl", reason='training needs: pip install ".[training]"')

from interleave_thinker import open_generator, open_scorer
from interleave_thinker.backend.core.errors import SettingsError, TrainingError
from interleave_thinker.backend.models.checkpoints.checkpoint import checkpoint_digest
from interleave_thinker.tinyworld import checkpoint
from interleave_thinker.training.from_runs.settings import RunsData
from interleave_thinker.training.gate.gate_rows import GateSettings
from interleave_thinker.training.reward.critic_reward import CriticReward, RewardSettings, RewardSetup
from interleave_thinker.training.reward.redrawer import DrawingSettings
from interleave_thinker.training.rows.rl import read_rl_rows
from interleave_thinker.training.rows.sft import write_rows
from interleave_thinker.training.stages import own_critic
from interleave_thinker.training.stages.grpo_settings import TrainingData
from interleave_thinker.training.stages.own_critic import Rehearsal, rl_rows
from interleave_thinker.training.trainer.progress import clock, dry_runs
from interleave_thinker.training.trainer.run import Prepared, time_lines


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary files, which must be empty again."""
    made = tmp_path / "scratch"
    made.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    yield made
    assert not list(made.iterdir())


@pytest.mark.parametrize("stage", short_trainings.STAGES)
def test_every_stage_is_checked_and_timed(stage: str, folder: Path, tmp_path: Path, scratch: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    lines: list[str] = []
    with dry_runs():
        short_trainings.STAGES[stage](folder, tmp_path / "run", lines.append)
    assert not (tmp_path / "run").exists()
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    said = "\n".join(lines)
    assert lines[-1].startswith("dry run: nothing was written")
    assert "tokens per " in said and ", median " in said and "0 of " in said
    assert f"timed: {'2 rollouts' if stage == 'critic-grpo' else '3 steps'}" in said
    assert ("a check on held-out rows took" in said) == (stage != "sft")
    assert "estimated time: 0:" in said and "peak memory until then: " in said
    # The same training may then begin: nothing claims its folder.
    assert " 4 steps" in said or "2 rollouts" in said


def test_what_would_stop_a_training_stops_a_dry_run(folder: Path, tmp_path: Path, scratch: Path) -> None:
    lines: list[str] = []
    with dry_runs(), pytest.raises(SettingsError, match="exceed the maximum of 40"):
        short_trainings.sft(folder, tmp_path / "run", lines.append, max_length=40)
    (line,) = (line for line in lines if line.startswith("tokens per row: "))
    assert "16 of 16 rows are longer than 40 (max_length): an error without --skip-bad" in line
    with dry_runs(), pytest.raises(TrainingError, match="below the floor before any step"):
        short_trainings.grpo(folder, tmp_path / "run", lines.append, collapse_threshold=1.0)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "training.json").write_text('{"stage": "critic-grpo"}')
    with dry_runs(), pytest.raises(TrainingError, match="contains a training of stage 'critic-grpo'"):
        short_trainings.sft(folder, tmp_path / "other")
    assert not (tmp_path / "run").exists()


def test_the_command_prints_the_estimates(folder: Path, tmp_path: Path, scratch: Path) -> None:
    write_rows(tmp_path / "rows.json", short_trainings.sft_rows())
    said = call(
        *("train", "critic-sft", "--model", folder / "base", "--data", tmp_path / "rows.json", "--dry-run"),
        *("--images", folder),
        *("--out", tmp_path / "run", "--set", "device=cpu", "--per-device-train-batch-size", 4),
        *("--lora-r", 2),
    )
    assert said.exit_code == 0, said.output
    assert "GB of RAM" in said.output and "memory of train merge: 0.9 GB" in said.output
    assert "estimated time" in said.output and "checkpoint: " not in said.output
    assert not (tmp_path / "run").exists()


def test_own_critic(folder: Path, tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        run = made_run(tmp_path / "runs" / f"{number}", [(number, True, None)], prompt=f"page {number}")
        say(run, 0, number % 2 == 0, note="I looked.")
    rows, _ = read_rl_rows(folder / "critic_rl.jsonl")
    data = TrainingData(rows[2:], rows[:2], folder)
    monkeypatch.setattr(own_critic, "rl_rows", lambda made, settings: data)
    monkeypatch.setattr(
        own_critic._OwnCritic, "_gate_rows", lambda self, new, old, annotated: (annotated, old)
    )
    reward = RewardSetup(
        open_generator("tinyworld"), open_scorer("tinyworld"), RewardSettings(), DrawingSettings(tries=1)
    )
    settings = own_critic.OwnCriticSettings(
        RunsData(), short_trainings.SFT, Rehearsal(least_rows=1, least_steps=1), GateSettings()
    )
    agents = own_critic.OwnCriticAgents(
        reinforcement=own_critic.ReinforcementStage(short_trainings.GRPO, reward)
    )
    begun: list[int] = []
    monkeypatch.setattr(CriticReward, "begin", lambda self, *given: begun.append(1))
    critic, lines = checkpoint("critic"), []
    before = checkpoint_digest(critic)
    with dry_runs():
        own_critic.train_own_critic(
            critic,
            own_critic.OwnCriticData([tmp_path / "runs"]),
            tmp_path / "own",
            settings,
            agents,
            lines.append,
        )
    assert sum(line.startswith("estimated time: ") for line in lines) == 2
    assert any("rollouts took" in line for line in lines) and begun == [1]
    assert any(line.startswith("estimated memory of the gate: ") for line in lines)
    assert not (tmp_path / "own").exists() and checkpoint_digest(critic) == before


def test_too_few_rows_for_a_rollout_name_the_recipe(folder: Path) -> None:
    made = own_critic.MadeData.model_construct(folder=folder, rl=folder / "critic_rl.jsonl")
    settings = short_trainings.GRPO.model_copy(update={"prompts": 500, "per_device_train_batch_size": 64})
    with pytest.raises(SettingsError, match=r"3 rows .*one rollout needs 500 .*recipe") as few:
        rl_rows(made, settings)
    assert "497 more rows, or set prompts: 3 and per_device_train_batch_size: 3 in" in few.value.hint
    settings = settings.model_copy(update={"prompts": 3, "per_device_train_batch_size": 3})
    assert len(rl_rows(made, settings).rows) == 3


def test_the_options_that_the_error_names_fit_the_rows(folder: Path, tmp_path: Path, scratch: Path) -> None:
    given = ["train", "critic-grpo", "--config", "tiny", "--data", folder / "critic_rl.jsonl", "--dry-run"]
    given += ["--out", tmp_path / "run", "--num-generations", 4]
    small = ("max_completion_length=16", "check_rows=2", "check_batch=2", "collapse_threshold=0")
    for one in (*small, "rollouts=1"):
        given += ["--set", one]
    refused = call(*given)
    assert refused.exit_code == 2 and "3 training rows are fewer than the 16" in refused.output
    found = re.search(r"Use (--set prompts=3 --set per_dev\w+=12), or give 13 more", refused.output)
    assert found, refused.output
    accepted = call(*given, *found[1].split())
    assert accepted.exit_code == 0, accepted.output
    assert "1 rollouts of 3 prompts x 4 answers" in accepted.output


def test_the_estimate_is_the_median_for_all_steps_and_checks() -> None:
    lines = time_lines([9.0, 1.0, 2.0], 4.0, Prepared(None, 100, lambda: None, 6))
    assert lines[0] == "timed: 3 steps took 9.00, 1.00, 2.00 s"
    assert (
        "estimated time: 3:44 for 100 steps and the checks; 2:04 at the speed of the fastest timed "
        "one, 15:24 at that of the slowest" in lines[2]
    )
    rollouts = time_lines([9.0, 1.0, 7.0, 1.0], 0.0, Prepared(None, 10, None, 0), 2)
    assert rollouts[0] == "timed: 2 rollouts took 10.00, 8.00 s" and "0:45" in rollouts[1]
    assert clock(3723.4) == "1:02:03"
