"""One step of every kind of GRPO training, with questions of no, one and two images.

Full training and an adapter, with and without a KL term, mixed in a batch and separately. By default, every
pair of these; in `just stress`, every combination.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support import small_grpo
from support.tiny_checkpoint import page

pytest.importorskip("trl", reason='training needs: pip install "interleave-thinker[training]"')

from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.types import Plan
from interleave_thinker.tinyworld import checkpoint
from interleave_thinker.training.gate.held_out import PlanCheck
from interleave_thinker.training.reward.plan_judges import JudgingSettings, PlanScore
from interleave_thinker.training.reward.plan_reward import PlanRewardSettings
from interleave_thinker.training.rows.rl import PlannerRlRow
from interleave_thinker.training.stages.grpo import PlannerTask
from interleave_thinker.training.stages.grpo import train as train_grpo
from interleave_thinker.training.stages.grpo_settings import PlannerGrpoTraining, TrainingData

MIXED, NONE = (1, 0, 2), (0, 0, 0)
"""Images of the three questions."""
WEIGHTS = {"all weights": 0, "adapter": 4}
"""LoRA rank."""


def combinations(batches: dict[str, Any], values: dict[str, Any]) -> list[Any]:
    """Return all combinations with the LoRA ranks; half of them, in which every pair is, run by default."""
    return [
        pytest.param(*batch, value, rank, id=f"{name}-{one}-{weights}", marks=[pytest.mark.stress][: odd % 2])
        for number, (name, batch) in enumerate(batches.items())
        for second, (one, value) in enumerate(values.items())
        for odd, (weights, rank) in enumerate(WEIGHTS.items(), number + second)
    ]


class Lengths:
    """A judge that prefers plans with more steps."""

    identity = "lengths"

    def check(self, row: PlannerRlRow) -> None:
        pass

    def keep_in(self, path: Path) -> None:
        pass

    def score(self, row: PlannerRlRow, plan: Plan, pictures: Sequence[Picture]) -> PlanScore:
        return PlanScore(match=min(1.0, len(plan.steps) / 5), consistency=1.0)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images")
    for grey in (20, 240):
        page(grey, (64, 64)).image.save(folder / f"{grey}.png")
    return folder


@pytest.fixture(scope="module")
def critic_rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_grpo.make_data(tmp_path_factory.mktemp("rl"), 6, 6)


@pytest.fixture(autouse=True)
def no_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers are too short for a plan, which would stop a planner's training before its first step."""
    monkeypatch.setattr(PlanCheck, "low", lambda self, floor, first: None)


def names(count: int) -> list[str]:
    return ["20.png", "240.png"][:count]


def first_step(out: Path) -> dict[str, Any]:
    """Return the trainer's log of its first step."""
    state = json.loads((out / "steps" / "checkpoint-1" / "trainer_state.json").read_text())
    return next(entry for entry in state["log_history"] if entry["step"] == 1 and "loss" in entry)


def check_distance(out: Path, kl: float) -> None:
    """At the first step the policy equals the reference; a KL would show that they saw different images."""
    logged = first_step(out)
    assert ("kl" in logged) == (kl > 0)
    assert abs(logged.get("kl", 0.0)) < 1e-6


@pytest.mark.parametrize(
    ("counts", "micro_batch", "kl", "rank"),
    combinations(
        {"apart": (MIXED, 2), "in one batch": (MIXED, 6), "no images": (NONE, 6)}, {"no kl": 0.0, "kl": 0.1}
    ),
)
def test_a_planner_is_reinforced(
    images: Path, tmp_path: Path, counts: tuple[int, ...], micro_batch: int, kl: float, rank: int
) -> None:
    settings = PlannerGrpoTraining(
        learning_rate=1e-4,
        prompts=3,
        num_generations=2,
        updates=1,
        per_device_train_batch_size=micro_batch,
        rollouts=1,
        max_completion_length=16,
        save_every=1,
        check_rows=2,
        check_batch=2,
        collapse_threshold=0.0,
        freeze_vision=False,
        tensorboard=False,
        device="cpu",
        beta=kl,
        lora_r=rank,
    )
    rows = [
        PlannerRlRow(
            request=f"{'<image>' * count}Draw a boat {number}.", images=names(count), checklist=["a boat"]
        )
        for number, count in enumerate(counts)
    ]
    task = PlannerTask(Lengths(), PlanRewardSettings(), JudgingSettings(), images)
    data = TrainingData(rows, rows[:2], images)
    train_grpo(checkpoint("planner"), data, tmp_path, settings, task, lambda line: None)
    check_distance(tmp_path, kl)


@pytest.mark.parametrize("rank", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("kl", [0.0, 0.1])
def test_a_critic_is_reinforced(critic_rows: Path, tmp_path: Path, kl: float, rank: int) -> None:
    changes = {
        "rollouts": 1,
        "updates": 1,
        "num_generations": 2,
        "max_completion_length": 16,
        "tensorboard": False,
    }
    settings = small_grpo.SMALL.model_copy(update={**changes, "beta": kl, "lora_r": rank})
    small_grpo.run(critic_rows, tmp_path, settings)
    check_distance(tmp_path, kl)
