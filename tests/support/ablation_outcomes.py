"""Results of ablation jobs with random outcomes of known shares."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random

from pydantic import BaseModel

from interleave_thinker.research.tinyworld.ablation.jobs import ROWS, measured, seed_folder
from interleave_thinker.research.tinyworld.ablation.measures import RowOutcomes, StoredVerdicts
from interleave_thinker.research.tinyworld.ablation.training import AblationSettings
from interleave_thinker.research.tinyworld.stories import StoryOutcome


def found_by(rate: float, rng: Random, attempts: Sequence[int] = (3,)) -> RowOutcomes:
    outcomes = [
        StoryOutcome(right=right, steps=[right, True], draws=3)
        for right in (rng.random() < rate for _ in range(100))
    ]
    truth = [bool(number % 2) for number in range(50)]
    return RowOutcomes(
        told=dict.fromkeys(attempts, outcomes), judged=StoredVerdicts(said=[*truth[:-1], None], truth=truth)
    )


def write_found(folder: Path, found: BaseModel) -> None:
    folder.mkdir(parents=True)
    (folder / "measured.json").write_text(found.model_dump_json())


def write_seeds(out: Path, settings: AblationSettings) -> None:
    """Write the jobs' results: alone 0.1 of the stories, full RL 0.9, planner SFT 0.7, all others 0.5."""
    rng, rates = Random(settings.first_seed), {"alone": 0.1, "rl": 0.9, "planner_sft": 0.7}
    for seed in settings.all_seeds:
        folder = seed_folder(out, seed)
        for name in ROWS:
            attempts = {"alone": (1,), "sft": (1, 3, 5), "rl": (1, 3, 5)}.get(name, (3,))
            write_found(measured(folder, name), found_by(rates.get(name, 0.5), rng, attempts))
        for name in ("plans", "agent_plans"):
            (folder / name).mkdir()
            (folder / name / "plans.json").write_text(json.dumps({"exact": {"rate": 0.9}, "plans": []}))
