"""Preference training of the tiny planner: requests with and without an image in one batch.

Plans are judged by the simulated world, or only by their format. The commands that create pairs are tested
too.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason='training needs: pip install "interleave-thinker[training]"')

from interleave_thinker.backend.answers.reading import write_plan
from interleave_thinker.backend.errors import SettingsError
from interleave_thinker.backend.prompts import prompt_set_of
from interleave_thinker.backend.types import Plan
from interleave_thinker.tinyworld.lab.planning.rows import StoryKind, make_planner_rl
from interleave_thinker.tinyworld.lab.planning.simulated_world import SimulatedWorld
from interleave_thinker.tinyworld.runtime import checkpoint
from interleave_thinker.training.data.rows.planner_rl import planner_question, read_planner_rl
from interleave_thinker.training.data.rows.preference import PlannerPair, read_planner_pairs, write_pairs
from interleave_thinker.training.dpo.checks import plan_form_check
from interleave_thinker.training.dpo.settings import PlannerDpoTraining, split_pairs
from interleave_thinker.training.dpo.task import PlannerPairs
from interleave_thinker.training.dpo.train import train
from interleave_thinker.training.gate.monitored_run import TrainingData

SMALL = PlannerDpoTraining(
    learning_rate=1e-4,
    per_device_train_batch_size=4,
    gradient_accumulation_steps=1,
    max_steps=2,
    save_steps=2,
    check_rows=2,
    check_batch=2,
    max_completion_length=60,
    collapse_threshold=0.0,
    freeze_vision=False,
    tensorboard=False,
    device="cpu",
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The right plan against one without its last step, for requests with and without an image."""
    folder = tmp_path_factory.mktemp("pairs")
    rows, _ = read_planner_rl(make_planner_rl(folder, 40, 1, StoryKind(2, 2)))
    paged = [row for row in rows if row.images]
    plain = [row for row in rows if not row.images]
    prompt_set = prompt_set_of(checkpoint("planner"))
    assert prompt_set is not None
    pairs = []
    for row in [one for both in zip(plain[:6], paged[:6], strict=False) for one in both]:
        asked = planner_question(row, folder, folder / "shown", prompt_set)
        parts = asked["prompt"][0]["content"]
        text = "".join("<image>" if part["type"] == "image" else part["text"] for part in parts)
        plans = [Plan(steps=tuple(some)) for some in (row.reference, row.reference[:-1])]
        known = {"request": row.request, "reference": row.reference, "images": row.images}
        messages = [{"role": "user", "content": text}]
        chosen, rejected = map(write_plan, plans)
        pairs.append(
            PlannerPair.model_validate(
                {**known, "messages": messages, "chosen": chosen, "rejected": rejected}
            )
        )
    assert any(pair.images for pair in pairs) and not all(pair.images for pair in pairs)
    write_pairs(folder / "planner_pairs.jsonl", pairs)
    return folder / "planner_pairs.jsonl"


def run(data: Path, out: Path, judge: Any = None, **changes: Any) -> Path:
    settings = SMALL.model_copy(update=changes)
    rows, held = split_pairs(read_planner_pairs(data)[0], settings.check_rows)
    task = PlannerPairs(data.parent, judge)
    silent = lambda line: None  # noqa: E731
    return train(checkpoint("planner"), TrainingData(rows, held, data.parent), out, settings, task, silent)


@pytest.mark.parametrize("judge", [SimulatedWorld(), None], ids=["judged", "form alone"])
def test_plans_of_requests_with_and_without_an_image_are_trained_on(
    data: Path, tmp_path: Path, judge: Any
) -> None:
    assert (run(data, tmp_path, judge) / "prompt_set").is_dir()
    checks = json.loads((tmp_path / "checks.json").read_text())
    assert sorted(checks) == ["0", "2"] and ("match" in checks["0"]) == (judge is not None)
    assert "Preference training: planner" in (tmp_path / "report.html").read_text()


def test_a_judge_needs_something_to_judge_by(data: Path) -> None:
    rows = [row.model_copy(update={"reference": []}) for row in read_planner_pairs(data)[0]]
    with pytest.raises(SettingsError, match="checklist or a reference plan"):
        PlannerPairs(data.parent, SimulatedWorld()).questions(rows)


def test_a_planner_that_loses_its_form_is_stopped(data: Path) -> None:
    row = read_planner_pairs(data)[0][0]
    first = plan_form_check([row.chosen, row.chosen], [50, 50])
    assert first.low(0.8, first) is None and first.steps == 2.0
    half = plan_form_check([row.chosen, "what?"], [50, 50])
    assert "50% of the held-out answers are plans" in (half.low(0.8, first) or "")
    long = plan_form_check([row.chosen, row.chosen], [150, 150])
    assert "150 tokens" in (long.low(0.8, first) or "")
    nothing = plan_form_check(["a", "b"], [1, 1])
    assert nothing.low(0.8, nothing) == "none of the held-out answers is a plan"
