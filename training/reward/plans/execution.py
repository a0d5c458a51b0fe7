"""Executes plans with the image model that they are written for, and scores their images.

The first image of a plan edits the last image of its request, if any, and each later one edits the image
before it, once, without a critic. A judge of texts cannot know which phrasing this model follows; its images
show it. The first steps of all plans are generated together, then the second ones, and so on. Plans of a
group share their seeds, so that their images differ only by their prompts, and equal beginnings of plans are
generated once.

A step counts 0 if the generator refuses its prompt or the scorer cannot score its image, since its plan is
the reason. Any other failure leaves the plan out of its group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from ....backend.errors import InterleaveError
from ....backend.generators import Generator
from ....backend.loop.policy import hashed_seed
from ....backend.pictures import Picture
from ....backend.scorers import Scorer
from ....backend.types import Plan
from ...content_cache import ContentCache
from ...data.rows.planner_rl import PlannerRlRow
from ...data.rows.rl import MAX_SEED
from ..redraws.batch_counts import BatchCounts
from ..redraws.failures import Failures
from ..redraws.redrawer import Outcome, Redraw, Redrawer
from ..redraws.turns import Card, begin_rewards
from .execution_settings import ExecutionSettings
from .judging import JudgingSettings


@dataclass(frozen=True)
class Executed:
    """Result of executing a plan.

    Attributes:
        share: Mean score of its executed steps, 0 to 1, or None with the reason in `fault`.
        scores: Score of each executed step, 0 to 1.
        fault: Why the plan could not be executed.
    """

    share: float | None
    scores: tuple[float, ...] = ()
    fault: str = ""


@dataclass
class _Story:
    """A plan while it is executed; `page` is the image that its next step edits."""

    row: PlannerRlRow
    prompts: list[str]
    page: Picture | None
    scores: list[float] = field(default_factory=list)
    fault: str = ""

    def add(self, outcome: Outcome) -> None:
        """Add the outcome of the next step."""
        if outcome.score is None and not outcome.refused:
            self.fault = outcome.fault or "no image"
            return
        self.scores.append(outcome.score.overall / 10 if outcome.score else 0.0)
        self.page = outcome.picture or self.page


class PlanExecution:
    """Executes batches of plans, and counts the recent failures."""

    def __init__(self, redrawer: Redrawer, settings: ExecutionSettings, seed: int) -> None:
        self.redrawer = redrawer
        self.settings = settings
        self.seed = seed
        # Not the redrawer's own: to it, an image that cannot be scored is a failure too.
        self._failures = Failures("executed plans", redrawer.settings.max_failures)
        self._picture = lru_cache(maxsize=512)(Picture.open)

    def begin(self, trainer: Any, processor: Any) -> None:
        """Prepare for training, as the critic's reward does.

        Raises:
            SettingsError: The model is sharded, which the scorer or a shared GPU does not support.
        """
        begin_rewards(self.redrawer.scorer, self.redrawer.card, trainer, processor)

    @property
    def problem(self) -> str | None:
        """Why training should stop, or None while failures are few and the image limit is not reached."""
        return self.redrawer.used_up or self._failures.problem()

    @property
    def problem_at_end(self) -> str | None:
        """Like `problem`, after the last plan, when a few failures are enough."""
        return self.redrawer.used_up or self._failures.problem(at_end=True)

    async def execute(
        self, rows: Sequence[PlannerRlRow], plans: Sequence[Plan | None], folder: Path
    ) -> tuple[list[Executed | None], BatchCounts]:
        """Execute the plans.

        Args:
            rows: Row of each plan.
            plans: Plans, or None to skip one.
            folder: Folder to which the rows' image paths are relative.

        Returns:
            A result for each plan, in order (None for a skipped one), and the counts of the images.

        Raises:
            Cancelled: The run was cancelled.
            SettingsError: The cache cannot be used.
        """
        stories = [
            self._begun(row, plan, folder) if plan else None for row, plan in zip(rows, plans, strict=True)
        ]
        begun = [story for story in stories if story is not None]
        counts = BatchCounts()
        for number in range(self.settings.executed_steps):
            drawn = [story for story in begun if not story.fault and number < len(story.prompts)]
            if not drawn:
                break
            wanted = [
                Redraw(
                    story.page, story.prompts[number], story.prompts[number], self._seed(story.row, number)
                )
                for story in drawn
            ]
            outcomes, counted = await self.redrawer.score_all(wanted)
            counts = counts.plus(counted)
            for story, outcome in zip(drawn, outcomes, strict=True):
                story.add(outcome)
        for story in begun:
            self._failures.add(bool(story.fault), story.fault)
        return [None if story is None else _executed(story) for story in stories], counts

    def _begun(self, row: PlannerRlRow, plan: Plan, folder: Path) -> _Story:
        prompts = [step.prompt for step in plan.drawn_steps if step.prompt]
        story = _Story(row, prompts[: self.settings.executed_steps], None)
        try:
            story.page = self._picture(folder / row.images[-1]) if row.images else None
        except InterleaveError as error:
            story.fault = str(error)
        return story

    def _seed(self, row: PlannerRlRow, number: int) -> int:
        """Return the seed of a step's image, which is the same for all plans of the row."""
        return hashed_seed(f"{self.seed}\0{number}\0{row.request}", bits=64) % MAX_SEED


def _executed(story: _Story) -> Executed:
    if story.fault:
        return Executed(None, tuple(story.scores), story.fault)
    # A plan without an image has nothing to show.
    share = sum(story.scores) / len(story.scores) if story.scores else 0.0
    return Executed(share, tuple(story.scores))


class ExecutionSetup:
    """Generator, scorer and settings that execute plans.

    `cache` is the file of their images and scores (None: in the training's folder).
    """

    def __init__(
        self,
        generator: Generator,
        scorer: Scorer,
        settings: ExecutionSettings,
        cache: Path | None = None,
    ) -> None:
        self.generator, self.scorer, self.settings, self.cache = generator, scorer, settings, cache
        self._card = Card(generator, scorer) if settings.take_turns else None
        self.opened: PlanExecution | None = None

    def identity(self) -> dict[str, Any]:
        """Return what determines the rewards of a plan."""
        return {
            **self.rewarders(),
            "executed_weight": self.settings.executed_weight,
            "executed_steps": self.settings.executed_steps,
        }

    def rewarders(self) -> dict[str, str]:
        """Return the identities of generator and scorer."""
        return {"generator": self.generator.identity, "scorer": self.scorer.identity}

    def open(self, out: Path, judging: JudgingSettings, seed: int) -> PlanExecution:
        """Return the execution of the training in `out`; rewards and checks share it.

        Raises:
            SettingsError: The cache cannot be used.
        """
        if self.opened is None:
            cache = ContentCache(self.cache or out / "rewards.sqlite")
            redrawer = Redrawer(
                self.generator, self.scorer, cache, self.settings.drawing(judging), self._card
            )
            self.opened = PlanExecution(redrawer, self.settings, seed)
        return self.opened

    def longest(self, plans: int, judging: JudgingSettings) -> float:
        """Return the seconds after which this many plans are executed or have failed."""
        return self.settings.executed_steps * self.settings.drawing(judging).longest(plans)
