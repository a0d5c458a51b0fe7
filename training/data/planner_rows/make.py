"""Trajectories and outside sets as a planner's training data: planner_sft.json, its images and a report.

Decision: only trajectories in which every step was accepted are taught, for a plan whose pictures nobody
could draw is no good plan. What was left out is counted with its reason. Images are copied, each once under
its digest, so the folder can be moved; it appears whole, and replaces nothing but an earlier one of these.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ValidationError

from ....backend.errors import AnswerError, JournalError, PictureError, SettingsError
from ....backend.feedback.sft_row import SftMessage, SftRow
from ....backend.files.atomic import writing_folder
from ....backend.loop.replay import load_trajectory
from ....backend.pictures import Picture
from ....backend.prompts import PromptSet
from ....backend.types import StopReason, Trajectory
from ...rows.sft import RowProblem, check_rows, show_problems, write_rows
from ...runs.filter import TRAIN
from ...runs.run_folders import find_runs
from ..guard.index import Guard, optional_guard
from ..row_folder import IMAGES, check_place, keep_picture
from ..trajectories.outcomes import read_sample
from .kinds import Question, bad_prompt, has_unasked_words, questions_of
from .settings import Kind, PlannerRowsData

SFT_FILE, HELD_OUT_FILE, REPORT = "planner_sft.json", "planner_sft_held_out.json", "report.json"
OURS = {SFT_FILE, HELD_OUT_FILE, REPORT}
MAX_LISTED = 1000
GOOD = {StopReason.accepted, StopReason.picked, StopReason.unjudged, StopReason.text_only}


class PlannerReport(BaseModel):
    """The content of report.json. `unasked_words`: trajectories whose pictures have words although the
    request does not seem to ask for any; a person should look at them."""

    trajectories: int = 0
    rows: dict[str, int] = {}
    held_out: int = 0
    left_out: dict[str, int] = {}
    unasked_words: list[str] = []


@dataclass
class _Made:
    rows: list[SftRow] = field(default_factory=list)
    held_out: list[SftRow] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    unasked: list[str] = field(default_factory=list)
    trajectories: int = 0


@dataclass(frozen=True)
class PlannerRows:
    """Makes a planner's rows by these settings, in the wording of the planner that is to learn."""

    settings: PlannerRowsData
    prompt_set: PromptSet
    guard: Path | None = None
    log: Callable[[str], None] = print

    def make(self, runs: Sequence[Path], outside: Sequence[Path], out: Path) -> PlannerReport:
        """Make the rows of `runs` (folders of runs) and of the data files `outside` in the folder `out`.

        Raises SettingsError for an `out` that holds something else, or where no row comes of it.
        """
        kinds = self.settings.chosen()
        check_place(out, OURS)
        made = _Made()
        with (
            optional_guard(self.guard) as guard,
            writing_folder(out, SettingsError, "Data folder") as temporary,
        ):
            (temporary / IMAGES).mkdir()
            for name, folder in self._found(runs):
                self._add_run(made, name, folder, kinds, guard, temporary)
            for path in outside:
                self._add_rows(made, path, temporary)
            report = PlannerReport(
                trajectories=made.trajectories,
                rows=dict(sorted(made.kinds.items())),
                held_out=len(made.held_out),
                left_out=dict(made.left_out.most_common()),
                unasked_words=made.unasked[:MAX_LISTED],
            )
            for line in as_lines(report):
                self.log(line)
            if not made.rows and not made.held_out:
                raise SettingsError("No row comes of this.", "The table above says why.")
            write_rows(temporary / SFT_FILE, made.rows)
            if made.held_out:
                write_rows(temporary / HELD_OUT_FILE, made.held_out)
            text = json.dumps(report.model_dump(), indent=1, ensure_ascii=False)
            (temporary / REPORT).write_text(text + "\n", encoding="utf-8")
        return report

    def _found(self, runs: Sequence[Path]) -> Iterator[tuple[str, Path]]:
        found = find_runs(runs) if runs else []
        for number, (folder, name) in enumerate(sorted(found, key=lambda item: item[1]), 1):
            yield name, folder
            if number % 500 == 0:
                self.log(f"{number}/{len(found)} runs read")

    def _add_run(
        self,
        made: _Made,
        name: str,
        folder: Path,
        kinds: Sequence[Kind],
        guard: Guard | None,
        out: Path,
    ) -> None:
        made.trajectories += 1
        try:
            trajectory, sample = load_trajectory(folder), read_sample(folder)
        except (JournalError, PictureError):
            made.left_out["its folder cannot be read"] += 1
            return
        reason = self._unfit(trajectory, guard)
        questions: list[Question] = []
        try:
            if not reason:
                own = sample.id if sample else name
                questions = questions_of(own, trajectory, kinds, self.prompt_set, self.settings.think)
        except (AnswerError, SettingsError):
            reason = "its texts cannot stand in a row"
        if reason:
            made.left_out[reason] += 1
            return
        if has_unasked_words(trajectory):
            made.unasked.append(name)
        held_out = sample is not None and sample.split not in ("", TRAIN)
        for question in questions:
            (made.held_out if held_out else made.rows).append(_row(question, out))
            made.kinds[question.kind] += 1

    def _unfit(self, trajectory: Trajectory, guard: Guard | None) -> str:
        results = trajectory.results
        if len(results) < len(trajectory.plan.steps) or any(one.stop_reason not in GOOD for one in results):
            return "not every step was accepted"
        if bad_prompt(trajectory.plan):
            return "a prompt speaks of its step's number or of a previous image"
        if guard is not None and guard.finding(trajectory.request.text, trajectory.request.images):
            return "its request is in a benchmark"
        return ""

    def _add_rows(self, made: _Made, path: Path, out: Path) -> None:
        rows, problems = check_rows(path, skip_bad=True)
        show_problems(problems, len(rows), self.log)
        made.left_out["a row of an outside file that cannot be used"] += len(problems)
        for row in rows:
            names = [keep_picture(Picture.open(path.parent / name), out) for name in row.images]
            made.rows.append(row.model_copy(update={"images": names}))
            made.kinds["outside"] += 1
        made.left_out += Counter()  # without zeros


def _row(question: Question, out: Path) -> SftRow:
    turns = [
        SftMessage(role="user", content=question.text),
        SftMessage(role="assistant", content=question.answer),
    ]
    names = [keep_picture(picture, out) for picture in question.images]
    try:
        return SftRow(messages=turns, images=names)
    except ValidationError as error:
        raise SettingsError(str(RowProblem.of(question.kind, error))) from error


def as_lines(report: PlannerReport) -> list[str]:
    """The report as Markdown tables."""
    lines = [f"{report.trajectories} trajectories", "", "| kind | rows |", "|---|---|"]
    lines += [f"| {kind} | {count} |" for kind, count in report.rows.items()]
    lines += [f"| of these held out | {report.held_out} |"] if report.held_out else []
    if report.left_out:
        lines += ["", "| left out, because | trajectories |", "|---|---|"]
        lines += [f"| {reason} | {count} |" for reason, count in report.left_out.items()]
    if report.unasked_words:
        count = len(report.unasked_words)
        lines += ["", f"{count} have words that nobody seems to have asked for (report.json lists them)."]
    return lines


__all__ = ["PlannerReport", "PlannerRows", "PlannerRowsData", "as_lines"]
