"""Pairs of a tiny agent's own answers: rewarded as in GRPO training and generated once.

Plans of earlier runs are included.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.small_grpo import make_data

pytest.importorskip("trl", reason='training needs: pip install "interleave-thinker[training]"')

from typer.testing import CliRunner

from interleave_thinker.backend.answers.reading import read_plan
from interleave_thinker.backend.journal.copy import save_trajectory
from interleave_thinker.backend.types import Plan, Request, Trajectory
from interleave_thinker.cli.data.command import app
from interleave_thinker.tinyworld.lab.planning.rows import StoryKind, make_planner_rl
from interleave_thinker.training.data.rows.planner_rl import read_planner_rl
from interleave_thinker.training.data.rows.preference import read_critic_pairs, read_planner_pairs
from interleave_thinker.training.dpo.pairs.sampled import plans_of_runs

SAMPLED = (
    "--samples 4 --temperature 1.9 --max-completion-length 100 --device cpu --sample-batch 24 "
    "--least-margin 0.01"
)


def test_a_critics_answers_become_pairs_and_are_written_once(tmp_path: Path) -> None:
    rl = make_data(tmp_path / "rl", right=4, wrong=4)
    given = ["critic-pairs", "--data", str(rl), "--model", "tinyworld:critic", "--generator", "tinyworld"]
    given += ["--scorer", "tinyworld", *SAMPLED.split(), "--out", str(tmp_path / "pairs")]
    first = CliRunner().invoke(app, given)
    assert first.exit_code == 0, (first.output, first.exception)
    path = tmp_path / "pairs" / "critic_pairs.jsonl"
    rows, _ = read_critic_pairs(path)
    written = path.read_bytes()
    for row in rows:
        assert row.chosen_score is not None and row.rejected_score is not None
        assert row.chosen_score - row.rejected_score >= 0.01
    assert all(len(row.images) == 2 for row in rows)
    again = CliRunner().invoke(app, given)
    assert "8 of 8 questions have cached answers" in again.output and path.read_bytes() == written


def test_a_planners_answers_become_pairs(tmp_path: Path) -> None:
    rl = make_planner_rl(tmp_path / "rl", 6, 1, StoryKind(2, 3, "other"))
    given = ["planner-pairs", "--data", str(rl), "--model", "tinyworld:planner", "--judge", "tinyworld"]
    given += [*SAMPLED.replace("100", "160").split(), "--out", str(tmp_path / "pairs")]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 0, (result.output, result.exception)
    rows, _ = read_planner_pairs(tmp_path / "pairs" / "planner_pairs.jsonl")
    assert all(row.judged_by() is not None and row.request for row in rows)
    report = json.loads((tmp_path / "pairs" / "report.json").read_text())
    assert report["pairs"] == len(rows) and report["questions"] == 6


def test_plans_for_the_same_request_are_paired(tmp_path: Path) -> None:
    rows, _ = read_planner_rl(make_planner_rl(tmp_path / "rl", 8, 1, StoryKind(2, 2)))
    row = next(row for row in rows if not row.images)
    for name, text in (("same", row.request), ("other", "Something else.")):
        plan = Plan(steps=tuple(row.reference))
        save_trajectory(
            Trajectory(request=Request(text=text), plan=plan, results=()), tmp_path / "runs" / name
        )
    lines: list[str] = []
    found = plans_of_runs([tmp_path / "runs"], rows, False, lines.append)
    assert list(found) == [row.line()]
    assert read_plan(found[row.line()][0]).steps == tuple(row.reference)
    assert any("found 1 plans from runs, for 1 of 8 requests" in line for line in lines)
