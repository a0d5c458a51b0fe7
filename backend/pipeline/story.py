"""The result of a run, and the stream of its events."""

from __future__ import annotations

from collections.abc import Generator as EventStream
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from ..errors import Cancelled, SettingsError
from ..exporters import export_by_name
from ..journal.waiting import Waiting
from ..loop.events import Event, Finished
from ..report.completeness import all_accepted, is_complete
from ..types import StepResult, Trajectory


@dataclass(frozen=True)
class Story:
    """The result of a run.

    Attributes:
        trajectory: The plan and every attempt of every step.
        folder: Run folder. None if the run was kept in RAM.
        waiting: What a paused run waits for (see `approve`). None if it did not pause.
    """

    trajectory: Trajectory
    folder: Path | None = None
    waiting: Waiting | None = None

    @property
    def steps(self) -> tuple[StepResult, ...]:
        """Results of the steps in order: the step, its attempts and the reason why it ended."""
        return self.trajectory.results

    @property
    def images(self) -> tuple[Image.Image, ...]:
        """The final image of every step that has one, in the order of the steps."""
        return tuple(result.image.image for result in self.steps if result.image)

    @property
    def complete(self) -> bool:
        """Whether every step finished without a failure, a cancellation, an exceeded limit or a pause."""
        return self.waiting is None and is_complete(self.trajectory)

    @property
    def accepted(self) -> bool:
        """Whether the run is complete and no step was rejected."""
        return self.waiting is None and all_accepted(self.trajectory)

    def export(self, name: str = "page", folder: str | Path | None = None, **options: Any) -> Path:
        """Export the story in another format.

        Args:
            name: Exporter, such as `page`, `pdf`, `comic`, `gif`, `markdown`, or one of a plug-in.
            folder: Folder to write into. Default: the run folder.
            **options: Options of the exporter, such as `title` or `audience`.

        Returns:
            The main file.

        Raises:
            SettingsError: The exporter is unknown, an option is not supported, or no folder is given.
            JournalError: The folder cannot be written.
        """
        target = folder or self.folder
        if target is None:
            raise SettingsError("This story has no run folder to export into.", "Pass a folder: folder=...")
        return export_by_name(name, self.trajectory, target, **options)


class StoryStream(Iterator[Event]):
    """The events of a run while it runs. `result` returns the story.

    Call `close` to stop the run and release its folder. Finished attempts stay in the folder, and the same
    request resumes them.
    """

    def __init__(self, events: EventStream[Event, None, None], folder: Path | None) -> None:
        self._events, self._folder = events, folder
        self._last: Finished | None = None

    def __iter__(self) -> StoryStream:
        return self

    def __next__(self) -> Event:
        event = next(self._events)
        if isinstance(event, Finished):
            self._last = event
        return event

    def close(self) -> None:
        """Stop the run and release its folder."""
        self._events.close()

    def result(self) -> Story:
        """Run to the end and return the story.

        Raises:
            Cancelled: The run was stopped before it had a result.
            InterleaveError: As while iterating.
        """
        for _ in self:
            pass
        if self._last is None:
            raise Cancelled("The run was stopped.", "Run the same request again to resume.")
        return Story(self._last.trajectory, self._folder, self._last.waiting)
