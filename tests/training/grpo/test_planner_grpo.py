"""GRPO training of the tiny planner: requests with and without an image in one rollout."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("trl", reason='training needs: pip install ".[training]"')

from interleave_thinker.backend.core.errors import SettingsError, TrainingError
from interleave_thinker.research.tinyworld.data.planner_rl import SimulatedWorld, StoryKind, make_planner_rl
from interleave_thinker.tinyworld import checkpoint
from interleave_thinker.training.reward.plan_judges import JudgingSettings
from interleave_thinker.training.reward.plan_reward import PlanRewardSettings
from interleave_thinker.training.rows.rl import read_planner_rl
from interleave_thinker.training.stages.grpo import PlannerTask, train
from interleave_thinker.training.stages.grpo_settings import (
    PlannerGrpoTraining,
    TrainingData,
    split_planner_rows,
)

SMALL = PlannerGrpoTraining(
    learning_rate=1e-4, prompts=4, num_generations=2, updates=1, per_device_train_batch_size=4, rollouts=2,
    max_completion_length=120, temperature=1.5, save_every=1, check_rows=2, check_batch=2,
    collapse_threshold=0.0, freeze_vision=False, tensorboard=False, device="cpu",
)  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Short stories, some of which start from an image and some of which do not."""
    path = make_planner_rl(tmp_path_factory.mktemp("rl"), 40, 1, StoryKind(1, 2))
    rows, _ = read_planner_rl(path)
    paged = [row for row in rows if row.images]
    plain = [row for row in rows if not row.images]
    mixed = [row for pair in zip(plain[:5], paged[:5], strict=True) for row in pair]
    path.write_text("\n".join(row.line() for row in mixed) + "\n")
    return path


def run(data: Path, out: Path, log: Callable[[str], None] = lambda line: None, **changes: object) -> Path:
    settings = SMALL.model_copy(update=changes)
    rows, held = split_planner_rows(read_planner_rl(data)[0], settings)
    task = PlannerTask(SimulatedWorld(), PlanRewardSettings(), JudgingSettings(), data.parent)
    return train(checkpoint("planner"), TrainingData(rows, held, data.parent), out, settings, task, log)


def test_a_declining_planner_is_stopped(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from interleave_thinker.training.stages import grpo

    checked, found = [0.9, 0.9, 0.2], grpo.plan_check
    monkeypatch.setattr(
        grpo, "plan_check", lambda *given: found(*given).model_copy(update={"match": checked.pop(0)})
    )
    lines: list[str] = []
    with pytest.raises(TrainingError, match=r"is 0\.20.*last good"):
        run(data, tmp_path, lines.append, collapse_threshold=0.8)
    final = tmp_path / "final"
    assert (final / "prompt_set").is_dir()
    assert json.loads((final / "agent.json").read_text())["role"] == "planner"
    first = (tmp_path / "rollouts" / "step_000000.jsonl").read_text().splitlines()
    asked = {json.loads(line)["request"] for line in first}
    paged = {row.request for row in read_planner_rl(data)[0] if row.images}
    assert asked & paged and asked - paged, "one rollout has requests with and without an image"
    (live,) = [line for line in lines if line.startswith("step 1/2 | ")]
    for part in ("reward", "match", "consistency", "length", "exact", "spread", "copied"):
        assert f" {part} " in live, part
    card = (final / "README.md").read_text()
    assert "Stage: planner-grpo" in card and "Held-out check at step 2: exact" in card


def test_one_command_trains_a_planner(data: Path, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from interleave_thinker.cli.train.command import app

    given = ["planner-grpo", "--config", "tiny", "--num-generations", "2", "--data", str(data)]
    small = ("rollouts=1", "prompts=2", "updates=1", "per_device_train_batch_size=4", "check_rows=2")
    for one in (*small, "collapse_threshold=0", "max_completion_length=96"):
        given += ["--set", one]
    result = CliRunner().invoke(app, [*given, "--out", str(tmp_path / "run")])
    assert result.exit_code == 0, (result.output, result.exception)
    assert result.output.splitlines()[-1] == f"checkpoint: {tmp_path / 'run' / 'final'}"
    refused = CliRunner().invoke(app, [*given, "--judge", "nobody:x", "--out", str(tmp_path / "other")])
    assert isinstance(refused.exception, SettingsError)


def test_no_request_of_a_check_is_trained_on(data: Path) -> None:
    rows = read_planner_rl(data)[0]
    again = rows[-1].model_copy(update={"checklist": ["written otherwise"]})
    trained, held = split_planner_rows([again, *rows], SMALL)
    assert held == rows[-2:] and again not in trained
    assert {row.request for row in trained}.isdisjoint(row.request for row in held)
