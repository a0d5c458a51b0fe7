"""A run before its models are opened: checks the folder and determines which models are needed."""

from __future__ import annotations

from collections.abc import Generator as EventStream
from contextlib import closing
from copy import copy
from pathlib import Path

from ..agents.constrained_planner import ConstrainedPlanner
from ..agents.plan_constraints import PlanConstraints
from ..agents.planner import Planner
from ..errors import SettingsError
from ..generators.protocol import Generator
from ..journal.journal import Journal
from ..journal.plan_parts import FOLDER, PlanParts
from ..journal.records.run_files import RUN
from ..loop.events import Event, PlanReady
from ..loop.loop import run
from ..loop.protocols import CastOfPlan, CriticLike, PlannerLike, RewritesSteps, StoryReviewer
from ..loop.step_rules import max_attempts_in
from ..scorers.protocol import Scorer
from ..types import Plan, Request, RunSettings


class PreparedRun:
    """A request with everything that determines how it runs, except the models.

    Args:
        request: Text and images.
        folder: Run folder, whose run is resumed. None keeps everything in RAM.
        settings: Settings of the loop.
        constraints: Constraints of the plan.
        plan: Plan to use instead of calling a planner.

    Raises:
        JournalError: The folder contains another run, or cannot be read.
    """

    def __init__(
        self,
        request: Request,
        folder: Path | None,
        settings: RunSettings,
        constraints: PlanConstraints,
        plan: Plan | None = None,
    ) -> None:
        self.request, self.settings, self._constraints = request, settings, constraints
        self._journal = Journal(folder) if folder else None
        self._parts = PlanParts(folder / FOLDER) if folder else None
        if self._journal:
            self._journal.check(request)
        written = self._written_plan() if plan is None else None
        style = constraints.style.strip()
        given = plan or written
        # A planner gets the style as a constraint.
        self.plan = given.model_copy(update={"style": style}) if given and style else plan
        most = max(settings.max_attempts, max_attempts_in(self.plan or written, settings))
        known = self.plan or written
        self.needs_generator = known is None or any(step.prompt for step in known.steps)
        """Whether a step may generate an image. A plan that is not known yet may have such steps."""
        self.needs_critic = most > 1 and self.needs_generator
        """Whether a step may have several attempts."""

    @property
    def needs_planner(self) -> bool:
        """Whether a planner has to write the plan."""
        return self.plan is None

    def events(
        self,
        planner: Planner | PlannerLike | None,
        generator: Generator | None,
        critic: CriticLike | None,
        cast: CastOfPlan | None = None,
        rewriter: RewritesSteps | None = None,
        reviewer: StoryReviewer | None = None,
        scorer: Scorer | None = None,
    ) -> EventStream[Event, None, None]:
        """Run the request and yield its events. The last one is `Finished`.

        Args:
            planner: The planner, if one is needed.
            generator: The image generator, if one is needed.
            critic: The critic, if one is needed.
            cast: Returns a plan with its cast.
            rewriter: Writes a prompt for the whole image of a step whose attempts are used up.
            reviewer: Checks the finished story.
            scorer: Chooses between attempts of a step.

        Raises:
            InterleaveError: As for `loop.run`. SettingsError if the planner does not support constraints.
        """
        with closing(self._run(planner, generator, critic, cast, rewriter, reviewer, scorer)) as events:
            for event in events:
                if isinstance(event, PlanReady) and self._parts:
                    self._parts.clear()
                yield event

    def _run(
        self,
        planner: Planner | PlannerLike | None,
        generator: Generator | None,
        critic: CriticLike | None,
        cast: CastOfPlan | None,
        rewriter: RewritesSteps | None,
        reviewer: StoryReviewer | None,
        scorer: Scorer | None,
    ) -> EventStream[Event, None, None]:
        if isinstance(planner, Planner):
            writer = copy(planner)
            writer.part_store = self._parts
            planner = ConstrainedPlanner(writer, self._constraints)
        elif planner is not None and self._constraints != PlanConstraints():
            raise SettingsError(
                f"{type(planner).__name__} does not support constraints of the plan.",
                "Omit the constraints, or use a Planner.",
            )
        given, store = self.settings, self._journal
        return run(
            self.request,
            planner,
            generator,
            critic,
            given,
            store,
            self.plan,
            cast,
            rewriter,
            reviewer,
            scorer,
        )

    def _written_plan(self) -> Plan | None:
        """Return the plan that the user wrote into the folder."""
        journal = self._journal
        return journal.written_plan() if journal and (journal.folder / RUN).exists() else None
