"""A run before its models are opened: reads the request, checks the folder, determines the needed models."""

from __future__ import annotations

import os
from collections.abc import Generator as EventStream
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from PIL import Image

from ..core.errors import SettingsError
from ..core.pictures import Picture
from ..core.types import MAX_TEXT, Plan, Request, RunSettings
from ..story.agents.plan_constraints import ConstrainedPlanner, PlanConstraints
from ..story.agents.planner import Planner
from ..story.journal.journal import Journal
from ..story.journal.run_files import FOLDER, RUN, PlanParts
from ..story.journal.waiting import waiting_for
from ..story.loop.collaborators import Collaborators
from ..story.loop.events import Event, PlanReady
from ..story.loop.loop import run
from ..story.loop.policy import max_attempts_in
from ..story.loop.replay import load_trajectory

ImageInput = str | Path | Image.Image | Picture


def read_request(text: str, images: Sequence[ImageInput] = ()) -> Request:
    """Return the request with its images opened.

    Raises:
        SettingsError: The text is empty, too long or invalid, or an image file does not exist.
        PictureError: A file is not an image.
    """
    return Request(text=read_text("The request", text), images=tuple(read_picture(image) for image in images))


def read_text(what: str, text: str) -> str:
    """Return the text if it can be stored and sent to an agent.

    Raises:
        SettingsError: The text is empty, too long or invalid.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SettingsError(f"{what} is not valid Unicode (character {error.start + 1}).") from error
    if not text.strip() or len(text) > MAX_TEXT:
        raise SettingsError(f"{what} must have 1 to {MAX_TEXT} characters, not {len(text)}.")
    return text


def read_picture(image: ImageInput) -> Picture:
    """Return an image, opened if it is a file.

    Raises:
        SettingsError: The file does not exist.
        PictureError: The file is not an image.
    """
    if isinstance(image, Picture):
        return image
    if isinstance(image, Image.Image):
        return Picture(image)
    # Path.exists raises OSError for a name that is too long.
    if not os.path.exists(image):
        raise SettingsError(f"Image {str(image)!r} does not exist.")
    return Picture.open(image)


def plan_of(folder: Path) -> Plan:
    """Return the plan of the run in a folder as it was planned, to be run in another folder.

    Raises:
        JournalError: The folder does not contain a run, the run has no plan yet, or a file is damaged.
        SettingsError: The plan waits for the user's approval.
    """
    waiting = waiting_for(folder)
    if waiting is not None and waiting.step is None:
        raise SettingsError(
            f"The plan of the run in {str(folder)!r} waits for your approval.", "Approve it first."
        )
    return load_trajectory(folder).plan.as_planned


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
