"""A run before its models are opened: checks the folder and determines which models are needed."""

from __future__ import annotations

from collections.abc import Generator as EventStream
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from ..agents.plan_constraints import ConstrainedPlanner, PlanConstraints
from ..agents.planner import Planner
from ..errors import SettingsError
from ..journal.journal import Journal
from ..journal.plan_parts import FOLDER, PlanParts
from ..journal.records.run_files import RUN
from ..loop.collaborators import Collaborators
from ..loop.events import Event, PlanReady
from ..loop.loop import run
from ..loop.step_rules import max_attempts_in
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

    def events(self, collaborators: Collaborators) -> EventStream[Event, None, None]:
        """Run the request and yield its events. The last one is `Finished`.

        Args:
            collaborators: The models that are needed, and what completes and checks the plan.

        Raises:
            InterleaveError: As for `loop.run`. SettingsError if the planner does not support constraints.
        """
        planner = collaborators.planner
        if isinstance(planner, Planner):
            planner = ConstrainedPlanner(planner, self._constraints, self._parts)
        elif planner is not None and self._constraints != PlanConstraints():
            raise SettingsError(
                f"{type(planner).__name__} does not support constraints of the plan.",
                "Omit the constraints, or use a Planner.",
            )
        given = replace(collaborators, planner=planner)
        with closing(run(self.request, given, self.settings, self._journal, self.plan)) as events:
            for event in events:
                if isinstance(event, PlanReady) and self._parts:
                    self._parts.clear()
                yield event

    def _written_plan(self) -> Plan | None:
        """Return the plan that the user wrote into the folder."""
        journal = self._journal
        return journal.written_plan() if journal and (journal.folder / RUN).exists() else None
