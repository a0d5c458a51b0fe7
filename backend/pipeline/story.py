"""The result of a run, and the stream of its events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Generator as EventStream
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from ..errors import Cancelled, SettingsError
from ..exporters import export_by_name
from ..journal.journal import Journal
from ..journal.waiting import Waiting
from ..loop.events import Event, Finished
from ..report.completeness import all_accepted, is_complete
from ..types import StepResult, Trajectory

if TYPE_CHECKING:
    from ..clips.making import ClipMade
    from ..types.clip import ClipMaker


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

    def make_clips(
        self,
        maker: ClipMaker | str,
        *,
        seed: int = 0,
        again: bool = False,
        on_clip: Callable[[ClipMade], object] | None = None,
        **options: Any,
    ) -> Story:
        """Make the missing clips between the images, and return the story with all of its clips.

        Each clip is stored in the run folder as soon as it is finished.

        Args:
            maker: Folder or hub id of a diffusers pipeline that takes a first and a last frame, or a
                `ClipMaker`.
            seed: Seed of every clip.
            again: Whether to make clips again that the story has already.
            on_clip: Called with each clip.
            **options: Options of the pipeline: seconds, size, fps, steps, guidance, negative, device, dtype,
                download.

        Raises:
            SettingsError: The model cannot be used, an option is invalid, or PyAV is missing.
            GeneratorError: A clip cannot be generated. All clips before it are stored.
            JournalError: Another process is using the run folder, or a clip cannot be stored.
        """
        from ..clips.making import make_clips
        from ..clips.pairs import with_clips

        if isinstance(maker, str):
            from ..clips.pipelines import open_clip_maker

            maker = open_clip_maker(maker, **options)
        elif options:
            raise SettingsError(
                f"The option {min(options)!r} needs a model name.", "Set it on the ClipMaker."
            )
        journal = None if self.folder is None else Journal(self.folder)
        keep = journal.keep_clip if journal else lambda clip: clip
        with journal.writing() if journal else nullcontext():
            made = []
            for one in make_clips(self.trajectory, maker, keep, seed, again):
                made.append(one.clip)
                if on_clip is not None:
                    on_clip(one)
        return replace(self, trajectory=with_clips(self.trajectory, made))


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
