"""Runs that pause for the user's decisions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from support.small_agents import Counting, OneInThree, OnePlan

from interleave_thinker import Event, Finished, Plan, Request, RunSettings, Step, Trajectory
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.loop.collaborators import Collaborators, RewritesSteps
from interleave_thinker.backend.story.loop.loop import run

REQUEST = Request(text="three images")
PLAN = Plan(steps=tuple(Step(number=number, prompt=f"image {number}") for number in (1, 2, 3)))


def nothing(event: Event) -> None:
    pass


class Paused:
    """A run folder with one request. Calling it runs the same command again.

    `drawn` are the prompts of the images that the last run generated.
    """

    def __init__(
        self, folder: Path, pause: str = "every step", plan: Plan = PLAN, **settings: object
    ) -> None:
        self.folder = folder
        self.settings = RunSettings.model_validate({"max_attempts": 3, "pause": pause, **settings})
        self.planner, self.critic, self.generator = OnePlan(plan), OneInThree(), Counting()
        self.rewriter: RewritesSteps | None = None

    def __call__(self, on_event: Callable[[Event], None] = nothing) -> Finished:
        self.generator.drawn.clear()
        last = None
        journal = Journal(self.folder)
        agents = Collaborators(self.planner, self.generator, self.critic, rewriter=self.rewriter)
        for last in run(REQUEST, agents, self.settings, journal):
            on_event(last)
        assert isinstance(last, Finished)
        return last

    @property
    def drawn(self) -> list[str]:
        return [prompt for prompt, _, _ in self.generator.drawn]

    def edit(self, *steps: Step) -> None:
        """Write these steps into plan.json, numbered from 1."""
        numbered = tuple(one.model_copy(update={"number": place}) for place, one in enumerate(steps, 1))
        (self.folder / "plan.json").write_text(Plan(steps=numbered).model_dump_json(), encoding="utf-8")


def images(trajectory: Trajectory) -> list[str | None]:
    """Return the digests of the final images."""
    return [result.image.digest if result.image else None for result in trajectory.results]
