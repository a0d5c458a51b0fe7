"""The rows of one run, made where the run is read: what `executor` hands out.

Decision: pictures are written at once, into the folder that is being made, so that what comes back is text.
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

NO_ROW = "its texts cannot stand in a row"


class KindRow(NamedTuple):
    """A row and its kind."""

    kind: str
    row: SftRow


class RunRows(NamedTuple):
    """What came of a run: rows, all or none; `reason` and `finding` say why there are none. `cut` and
    `too_long` count questions, as TrajectoryQuestions; `unasked`: its pictures have words that nobody asked
    for."""

    rows: tuple[KindRow, ...] = ()
    reason: str = ""
    finding: BenchmarkMatch | None = None
    held_out: bool = False
    unasked: bool = False
    cut: int = 0
    too_long: int = 0


@dataclass(frozen=True)
class WriteRows:
    """The job: read a run, write its pictures below `folder`, give its rows."""

    folder: Path
    asking: QuestionMaker
    guard: Path | None = None

    def open(self, stop: CancelToken) -> Callable[[RunPlace], RunRows]:
        """Raises SettingsError where the folder is not this machine's, or the index is damaged."""
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
    """Why a trajectory gives no row; empty if it gives some."""
    if reason := not_accepted(trajectory):
        return reason
    bad = bad_prompt(trajectory.plan)
    return "a prompt speaks of its step's number or of a previous image" if bad else ""


def rows_of(asked: TrajectoryQuestions, folder: Path) -> tuple[KindRow, ...]:
    """The questions of one trajectory as rows, their pictures written below `folder`. Raises PictureError for
    a picture that is gone, SettingsError for a question that cannot be a row."""
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
