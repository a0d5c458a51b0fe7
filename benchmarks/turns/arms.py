"""Arms of the comparison, each a job of a seed with its folder, and what is measured of them.

All arms of a seed start from the same fine-tuned critic, and the reinforced ones have the same rows, rollouts
and steps. Stories use their own plans, so that only critics differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from interleave_thinker.backend.errors import TrainingError
from interleave_thinker.backend.files.atomic import write_text
from interleave_thinker.tinyworld.lab.ablation import measures, rejection, stages
from interleave_thinker.tinyworld.lab.ablation.pipeline import USUAL_TEACHER
from interleave_thinker.tinyworld.lab.ablation.settings import AblationSettings
from interleave_thinker.tinyworld.lab.job_runner import LabJob
from interleave_thinker.tinyworld.lab.runs.stories import StoryOutcome
from interleave_thinker.training.grpo.critic_task import CriticTask
from interleave_thinker.training.grpo.settings import GrpoTraining
from interleave_thinker.training.reward.attempts.terms import AttemptSettings

from . import verdicts

FOUND = "found.json"


class HighEntropy(GrpoTraining):
    """GRPO that trains only the least certain tokens of a batch, which trl supports."""

    top_entropy_quantile: float = 0.2


@dataclass(frozen=True)
class Arm:
    """A way of training the critic; `turns` is None if it is not reinforced."""

    title: str
    turns: int | None = None
    training: type[GrpoTraining] = GrpoTraining
    rate: float | None = None


ARMS = {
    "sft": Arm("SFT"),
    "rejection": Arm("SFT, then SFT on the best of 8"),
    "rl": Arm("RL, single steps (published reward)", 1),
    "turns": Arm("RL, --turns 3", measures.ATTEMPTS),
    "entropy": Arm("RL, single steps, a fifth of the tokens", 1, HighEntropy),
    "slower": Arm("RL, single steps, a third of the rate", 1, rate=5e-5),
    "oracle": Arm("oracle critic"),
}


def jobs_of(out: Path, settings: AblationSettings, seed: int, arms: Sequence[str]) -> list[LabJob]:
    """Return the jobs of a seed in order: its critic and images, the arms, and their measures."""
    folder = out / f"seed_{seed}"
    novice, critic, pages = out / "novice", folder / "critic", folder / "pages"
    assert settings.start is not None
    jobs = [
        LabJob(novice, _given, (settings.start / "novice",)),
        LabJob(critic, stages.critic, (settings, seed, novice, True, USUAL_TEACHER), (novice,)),
        LabJob(pages, stages.pages, (settings, seed)),
    ]
    made: dict[str, Path | None] = {"sft": critic, "oracle": None}
    for name in arms:
        if name not in made:
            made[name] = folder / name
            given = (settings, seed, critic, pages)
            work, given = (rejection.rejection, given) if name == "rejection" else (train_arm, (*given, name))
            jobs.append(LabJob(folder / name, work, given, (critic, pages)))
    for name in arms:
        one = made[name]
        critic = stages.final(one) if one else None
        needs = (pages, one) if one else (pages,)
        jobs.append(LabJob(folder / f"measured_{name}", measure, (settings, seed, critic), needs))
    return jobs


class ArmFound(BaseModel):
    """Measures of an arm for one seed: its stories, and its critic's answers to new images, if any."""

    told: list[StoryOutcome]
    pages: verdicts.PageAnswers | None = None


def found_of(out: Path, seed: int, arm: str) -> ArmFound:
    """Return the measures of an arm."""
    path = out / f"seed_{seed}" / f"measured_{arm}" / FOUND
    return ArmFound.model_validate_json(path.read_text(encoding="utf-8"))


def measure(folder: Path, settings: AblationSettings, seed: int, critic: Path | None) -> None:
    """Run the seed's stories with their own plans, and let the critic judge new images.

    Without a critic, the oracle judges.
    """
    stories = measures.stories_of(settings, seed)
    agent = stages.agent_in(critic, settings) if critic is not None else None
    judge = agent.judge if agent is not None else measures.oracle_verdicts
    plans = [story.plan for story in stories]
    told = measures.run_stories_together(stories, plans, judge, (measures.ATTEMPTS,))[measures.ATTEMPTS]
    images = folder.parent / "pages" / stages.JUDGED
    found = ArmFound(told=told, pages=verdicts.answers_of(agent, images) if agent else None)
    write_text(folder / FOUND, found.model_dump_json(), TrainingError, "The measurement")


def train_arm(
    folder: Path, settings: AblationSettings, seed: int, start: Path, data: Path, name: str
) -> None:
    """Reinforce the critic in `start` as the arm does."""
    arm = ARMS[name]
    usual = stages.grpo_settings(settings, seed)
    given = usual.model_dump() | {"learning_rate": arm.rate or usual.learning_rate}
    training = arm.training(**given)
    task = CriticTask(stages.reward_of("all"), AttemptSettings(turns=arm.turns or 1))
    stages.reinforce(folder, training, start, data, task)


def _given(folder: Path, checkpoint: Path) -> None:
    from shutil import copytree

    copytree(checkpoint, stages.final(folder), dirs_exist_ok=True)
