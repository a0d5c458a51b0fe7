"""Creates the rows of one run in the worker that reads it.

Images are written immediately into the folder that is being created, so that a result consists only of text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from ....backend.errors import AnswerError, PictureError, SettingsError
from ....backend.feedback.sft_row import SftMessage, SftRow
from ....backend.types import Trajectory
from ..decontamination.items import BenchmarkMatch
from ..executors import CancelToken
from ..from_runs.reading import UNREADABLE, ReadRun, RunPlace, RunReading
from ..rows.row_folder import check_shared, keep_image
from ..rows.sft import RowProblem
from ..trajectories.accepted import not_accepted
from .kinds import PlannerQuestion, QuestionMaker, TrajectoryQuestions, bad_prompt, has_unasked_words

NO_ROW = "its text is not allowed in a row"


class KindRow(NamedTuple):
    """A row and its kind."""

    kind: str
    row: SftRow


class RunRows(NamedTuple):
    """Result of a run: all its rows, or none with a `reason` or a `finding`.

    `cut` and `too_long` count questions as in TrajectoryQuestions; `unasked` is whether images have texts
    that the request does not seem to ask for.
    """

    rows: tuple[KindRow, ...] = ()
    reason: str = ""
    finding: BenchmarkMatch | None = None
    held_out: bool = False
    unasked: bool = False
    cut: int = 0
    too_long: int = 0


@dataclass(frozen=True)
class WriteRows:
    """Job that reads a run, writes its images to `folder` and returns its rows."""

    folder: Path
    asking: QuestionMaker
    guard: Path | None = None

    def open(self, stop: CancelToken) -> Callable[[RunPlace], RunRows]:
        """Open the guard, and return the function for a run.

        Raises:
            SettingsError: The folder is not shared with this machine, or the index is damaged.
        """
        check_shared(self.folder)
        read = RunReading(unfit, self.guard)
        return lambda place: self._rows(read(place))

    def _rows(self, run: ReadRun) -> RunRows:
        if run.trajectory is None:
            return RunRows(reason=run.reason, finding=run.finding)
        try:
            asked = self.asking.questions_of(run.id, run.trajectory)
            rows = rows_of(asked, self.folder)
        except PictureError:
            return RunRows(reason=UNREADABLE)
        except (AnswerError, SettingsError):
            return RunRows(reason=NO_ROW)
        unasked = has_unasked_words(run.trajectory)
        return RunRows(rows, "", None, run.held_out, unasked, asked.cut, asked.too_long)


def unfit(trajectory: Trajectory) -> str:
    """Return why a trajectory cannot be used for rows, or an empty text."""
    if reason := not_accepted(trajectory):
        return reason
    bad = bad_prompt(trajectory.plan)
    return "a prompt refers to its step's number or to a previous image" if bad else ""


def rows_of(asked: TrajectoryQuestions, folder: Path) -> tuple[KindRow, ...]:
    """Return the questions of one trajectory as rows, and write their images to `folder`.

    Raises:
        PictureError: An image is missing.
        SettingsError: A question is not allowed in a row.
    """
    return tuple(KindRow(question.kind, _row(question, folder)) for question in asked.questions)


def _row(question: PlannerQuestion, folder: Path) -> SftRow:
    turns = [
        SftMessage(role="user", content=question.text),
        SftMessage(role="assistant", content=question.answer),
    ]
    names = [keep_image(picture, folder) for picture in question.images]
    try:
        return SftRow(messages=turns, images=names)
    except ValidationError as error:
        raise SettingsError(str(RowProblem.of(question.kind, error))) from error
