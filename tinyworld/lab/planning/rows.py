"""Rows for reinforcement learning of the tiny planner, and the same stories as rows for fine-tuning.

Each RL row has a request with a reference plan, by which a simulated world judges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from ....backend.errors import SettingsError
from ....backend.types import MAX_STEPS
from ....training.data.rows.planner_rl import PlannerRlRow, StepRange, write_planner_rl
from ...runtime.drawing import draw
from ..data.critic_rows import ImageFolder
from ..world.requests import Split, TinyStory
from .other_wordings import Wording, reworded_story
from .simulated_world import SimulatedWorld

RL_FILE = "planner_rl.jsonl"
MAX_REQUEST_STEPS = 20


@dataclass(frozen=True)
class StoryKind:
    """A kind of story: `least` to `most` steps with images, equally frequent, in one phrasing."""

    least: int = 1
    most: int = 6
    wording: Wording = "usual"

    def __post_init__(self) -> None:
        """Check the numbers of steps."""
        if not 1 <= self.least <= self.most <= min(MAX_REQUEST_STEPS, MAX_STEPS):
            raise SettingsError(
                f"Cannot create stories of {self.least} to {self.most} steps.",
                f"Use numbers from 1 to {MAX_REQUEST_STEPS}, the smaller one first.",
            )

    def stories(self, seed: str, split: Split) -> Iterator[TinyStory]:
        """Yield stories forever; the same seed gives the same stories."""
        rng = Random(f"{seed}/{self.least}-{self.most}/{self.wording}")
        while True:
            yield reworded_story(rng, split, rng.randint(self.least, self.most), self.wording)


def make_planner_rl(folder: Path, count: int, seed: int, kind: StoryKind, split: Split = "train") -> Path:
    """Write `count` different requests with their plans below `folder`, and return the data file.

    Raises:
        SettingsError: If a file cannot be written.
    """
    pages = ImageFolder(folder / "pages")
    rows: dict[str, PlannerRlRow] = {}
    for story in kind.stories(f"planner rl/{seed}", split):
        row = PlannerRlRow(
            request=story.text,
            images=[pages.name(draw(story.before))] if story.before is not None else [],
            reference=list(story.plan.steps),
            steps=StepRange(least=len(story.plan.steps), most=len(story.plan.steps)),
            judge=SimulatedWorld.identity,
        )
        rows.setdefault(row.line(), row)
        if len(rows) == count:
            break
    path = folder / RL_FILE
    write_planner_rl(path, list(rows.values()))
    return path
