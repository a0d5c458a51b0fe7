"""One step of GRPO with questions of no, one and two images, mixed in a batch and apart."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.small_grpo import SMALL

pytest.importorskip("trl", reason='training needs: pip install ".[training]"')

from interleave_thinker import Picture, Plan
from interleave_thinker.tinyworld import checkpoint
from interleave_thinker.training.gate.held_out import PlanCheck
from interleave_thinker.training.reward.plan_judges import JudgingSettings, PlanJudge, PlanScore
from interleave_thinker.training.reward.plan_reward import PlanRewardSettings
from interleave_thinker.training.rows.rl import PlannerRlRow
from interleave_thinker.training.stages.grpo import PlannerTask, train
from interleave_thinker.training.stages.grpo_settings import PlannerGrpoTraining, TrainingData

STEP = {"prompts": 3, "num_generations": 2, "updates": 1, "rollouts": 1, "max_completion_length": 16}
MIXED, NONE = (1, 0, 2), (0, 0, 0)
"""Images of the three questions."""


class Lengths(PlanJudge):
    """A judge that prefers plans with more steps."""

    identity = "lengths"

    def score(self, row: PlannerRlRow, plan: Plan, pictures: Sequence[Picture]) -> PlanScore:
        return PlanScore(match=min(1.0, len(plan.steps) / 5), consistency=1.0)


@pytest.mark.parametrize(
    ("counts", "micro_batch", "kl", "rank"),
    [(MIXED, 2, 0.1, 0), (MIXED, 2, 0.0, 4), (MIXED, 6, 0.1, 4), (NONE, 6, 0.1, 0)],
    ids=["apart", "apart, adapter", "in one batch, adapter", "no images"],
)
def test_a_planner_is_reinforced(
    counts: tuple[int, ...],
    micro_batch: int,
    kl: float,
    rank: int,
    images: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Answers are too short for a plan, which would stop the training before its first step.
    monkeypatch.setattr(PlanCheck, "low", lambda self, floor, first: None)
    changes = {"per_device_train_batch_size": micro_batch, "beta": kl, "lora_r": rank, "check_rows": 2}
    settings = PlannerGrpoTraining(**SMALL.model_dump() | STEP | changes)
    names = ["0.png", "255.png"]
    rows = [
        PlannerRlRow(
            request=f"{'<image>' * count}Draw a boat {number}.", images=names[:count], checklist=["a boat"]
        )
        for number, count in enumerate(counts)
    ]
    task = PlannerTask(Lengths(), PlanRewardSettings(), JudgingSettings(), images)
    data = TrainingData(rows, rows[:2], images)
    train(checkpoint("planner"), data, tmp_path, settings, task, lambda line: None)
    state = json.loads((tmp_path / "steps" / "checkpoint-1" / "trainer_state.json").read_text())
    logged = next(entry for entry in state["log_history"] if entry["step"] == 1 and "loss" in entry)
    # At the first step the policy equals the reference; a KL would show that they saw different images.
    assert ("kl" in logged) == (kl > 0) and abs(logged.get("kl", 0.0)) < 1e-6
