"""The result of a run, and the stream of events that leads to it."""

from __future__ import annotations

from collections.abc import Generator as EventStream
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from ..errors import Cancelled, SettingsError
from ..exporters import export_by_name
from ..loop.events import Event, Finished
from ..report.completeness import all_accepted, is_complete
from ..types import StepResult, Trajectory


@dataclass(frozen=True)
class Story:
    """The result of a run.

    Attributes:
        trajectory: The plan and every attempt of every step.
        folder: Folder of the run, None if it was kept in memory.
    """

    trajectory: Trajectory
    folder: Path | None = None

    @property
    def steps(self) -> tuple[StepResult, ...]:
        """Results of the steps in their order: the step, its attempts and the reason why it ended."""
        return self.trajectory.results

    @property
    def images(self) -> tuple[Image.Image, ...]:
        """The final image of every step that has one, in the order of the steps."""
        return tuple(result.image.image for result in self.steps if result.image)

    @property
    def complete(self) -> bool:
        """Whether every step was carried out without a failure, a cancellation or an exceeded limit."""
        return is_complete(self.trajectory)

    @property
    def accepted(self) -> bool:
        """Whether the run is complete and no step was rejected."""
        return all_accepted(self.trajectory)

    def export(self, name: str = "page", folder: str | Path | None = None, **options: Any) -> Path:
        """Write the story in another form.

        Args:
            name: Exporter, such as `page`, `pdf`, `comic`, `gif`, `markdown`, or one of a plug-in.
            folder: Folder to write into. Default: the folder of the run.
            **options: Options of the exporter, such as `title` or `audience`.

        Returns:
            The main file.

        Raises:
            SettingsError: There is no such exporter, an option cannot be used, or no folder is known.
            JournalError: The folder cannot be written.
        """
        target = folder or self.folder
        if target is None:
            raise SettingsError("This story has no folder to export into.", "Give one: folder=...")
        return export_by_name(name, self.trajectory, target, **options)


class StoryStream(Iterator[Event]):
    """The events of a run while it is carried out; `result` gives the story.

    Call `close` to stop the run, which also releases its folder. Finished attempts are in the folder, and the
    same request resumes there.
    """

    def __init__(self, events: EventStream[Event, None, None], folder: Path | None) -> None:
        self._events, self._folder = events, folder
        self._trajectory: Trajectory | None = None

    def __iter__(self) -> StoryStream:
        return self

    def __next__(self) -> Event:
        event = next(self._events)
        if isinstance(event, Finished):
            self._trajectory = event.trajectory
        return event

    def close(self) -> None:
        """Stop the run and release its folder."""
        self._events.close()

    def result(self) -> Story:
        """Carry out the rest of the run and return the story.

        Raises:
            Cancelled: The run was stopped before it had a result.
            InterleaveError: As iterating does.
        """
        for _ in self:
            pass
        if self._trajectory is None:
            raise Cancelled("The run was stopped.", "Run the same again to resume.")
        return Story(self._trajectory, self._folder)
