"""Decisions that all processes of a training make together, with simulated communication."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason='training needs: pip install ".[training]"')

from accelerate import utils

from interleave_thinker.backend.core.errors import ScorerError, TrainingError
from interleave_thinker.training.reward.plan_judges import JudgingSettings
from interleave_thinker.training.reward.redrawer import DrawingSettings
from interleave_thinker.training.stages.grpo_settings import GrpoTraining
from interleave_thinker.training.stages.grpo_trainer import config_of
from interleave_thinker.training.trainer.ending import MAX_PATIENCE, MIN_PATIENCE, of_first_rank


def test_the_first_rank_checks_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[list[Any]] = []

    def broadcast(values: list[Any]) -> list[Any]:
        sent.append(list(values))
        return sent[0]

    monkeypatch.setattr(utils, "broadcast_object_list", broadcast)
    asked: list[str] = []

    def check() -> Any:
        asked.append("")
        if len(asked) > 1:
            raise ScorerError("The judge is down.", "Start it.")
        return "checked"

    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        assert of_first_rank(check, 2) == "checked"
    assert len(asked) == 1, "the judge is called once"
    sent.clear()
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        with pytest.raises(TrainingError, match="The judge is down"):
            of_first_rank(check, 2)
    assert len(asked) == 2


def test_ranks_wait_for_the_longest_judge_time(tmp_path: Path) -> None:
    judging = JudgingSettings(score_seconds=300, tries=3, parallel_scores=8)
    # Eight at a time, three attempts each, with pauses of one and two seconds.
    assert judging.longest(64) == 8 * (3 * 300 + 3)
    assert judging.longest(65) == 9 * (3 * 300 + 3) and judging.longest(0) == 0
    drawing = DrawingSettings(draw_batch=4, draw_seconds=10, score_seconds=5, tries=2, parallel_draws=2)
    # Three batches, two at a time; then each image on its own, twice; then the scores.
    assert drawing.longest(12) == (2 * 4 + 6 * 2) * 10 + 12 * 2 * 5

    def waits(longest: float) -> int:
        return config_of(GrpoTraining(device="cpu"), tmp_path, 4, 1, longest).ddp_timeout

    assert waits(judging.longest(64)) == MIN_PATIENCE + 7224
    assert waits(0.0) == MIN_PATIENCE and waits(1e9) == MAX_PATIENCE
