"""A trajectory as a run's folder of its own: what Save Trajectory leaves, and the command line reads and
continues.

Decision: written through the journal, so there is one folder format; records are kept too, hence a run that
is continued from a copy draws nothing twice. The folder appears by one rename once everything is in it.
"""

from __future__ import annotations

from pathlib import Path

from ..errors import JournalError
from ..files.atomic import writing_folder
from ..pictures import Picture
from ..types import Attempt, Step, Trajectory
from .files import RunFiles
from .journal import Journal
from .store import DrawKey, Drawn, Judged, JudgeKey


def save_trajectory(trajectory: Trajectory, folder: Path) -> Path:
    """Write the trajectory as the run's folder `folder`, which must not be there yet; returns it.

    Raises JournalError if it is there or cannot be written; then nothing is left behind.
    """
    folder = Path(folder)
    if folder.exists():
        raise JournalError(f"{str(folder)!r} is there already.", "Give another name.")
    with writing_folder(folder, JournalError, "The run's folder") as temporary:
        _write(trajectory, temporary)
    return folder


def _write(trajectory: Trajectory, folder: Path) -> None:
    journal = Journal(folder)
    journal.begin(trajectory.request, trajectory.settings, trajectory.identities)
    try:
        journal.keep_plan(trajectory.plan, None)
        for result in trajectory.results:
            for attempt in result.attempts:
                _keep_attempt(journal, trajectory, result.step, attempt)
        files = RunFiles(folder)
        for picture in sources_of(trajectory):
            files.write_picture(picture)
        journal.finish(trajectory)
    finally:
        journal.end()


def _keep_attempt(journal: Journal, trajectory: Trajectory, step: Step, attempt: Attempt) -> None:
    source = attempt.source.digest if attempt.source else None
    cached_calls = trajectory.identities
    draw = DrawKey(generator=cached_calls.generator, prompt=attempt.prompt, seed=attempt.seed, source=source)
    error = attempt.error if attempt.image is None else None
    # An attempt's seconds are of drawing and judging together; the records' sum stays what it was.
    journal.keep_drawn(Drawn(key=draw, image=attempt.image, error=error, seconds=attempt.seconds))
    if attempt.image is None or attempt.verdict is None:
        return
    judge = JudgeKey(
        critic=cached_calls.critic,
        before=source,
        after=attempt.image.digest,
        original_prompt=step.prompt or "",
        prompt_used=attempt.prompt,
    )
    journal.keep_judged(Judged(key=judge, verdict=attempt.verdict))


def sources_of(trajectory: Trajectory) -> list[Picture]:
    """The pictures that attempts started from, each once."""
    attempts = [attempt for result in trajectory.results for attempt in result.attempts]
    return list({one.source.digest: one.source for one in attempts if one.source}.values())
