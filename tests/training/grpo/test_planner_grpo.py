"""GRPO training of the tiny planner: requests with and without an image in one rollout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("trl", reason='training needs: pip install ".[training]"')

from interleave_thinker.backend.core.errors import SettingsError
from interleave_thinker.cli.train.command import app
from interleave_thinker.research.tinyworld.data.planner_rl import StoryKind, make_planner_rl
from interleave_thinker.training.rows.rl import read_planner_rl
from interleave_thinker.training.stages.grpo_settings import PlannerGrpoTraining, split_planner_rows


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


def test_one_command_trains_a_planner(data: Path, tmp_path: Path) -> None:
    given = ["planner-grpo", "--config", "tiny", "--num-generations", "2", "--data", str(data)]
    small = ("rollouts=1", "prompts=4", "updates=1", "per_device_train_batch_size=4", "check_rows=2")
    for one in (*small, "collapse_threshold=0", "max_completion_length=96"):
        given += ["--set", one]
    out = tmp_path / "run"
    result = CliRunner().invoke(app, [*given, "--out", str(out)])
    assert result.exit_code == 0, (result.output, result.exception)
    *_, last = lines = result.output.splitlines()
    assert last == f"checkpoint: {out / 'final'}"
    first = (out / "rollouts" / "step_000000.jsonl").read_text().splitlines()
    asked = {json.loads(line)["request"] for line in first}
    paged = {row.request for row in read_planner_rl(data)[0] if row.images}
    assert asked & paged and asked - paged, "one rollout has requests with and without an image"
    (live,) = [line for line in lines if line.startswith("step 1/1 | ")]
    for part in ("reward", "match", "consistency", "length", "exact", "spread", "copied"):
        assert f" {part} " in live, part
    assert json.loads((out / "final" / "agent.json").read_text())["role"] == "planner"
    card = (out / "final" / "README.md").read_text()
    assert "Stage: planner-grpo" in card and "Held-out check at step 1: exact" in card
    refused = CliRunner().invoke(app, [*given, "--judge", "nobody:x", "--out", str(tmp_path / "other")])
    assert isinstance(refused.exception, SettingsError)


def test_no_request_of_a_check_is_trained_on(data: Path) -> None:
    rows = read_planner_rl(data)[0]
    again = rows[-1].model_copy(update={"checklist": ["written otherwise"]})
    trained, held = split_planner_rows([again, *rows], PlannerGrpoTraining(check_rows=2))
    assert held == rows[-2:] and again not in trained
    assert {row.request for row in trained}.isdisjoint(row.request for row in held)
