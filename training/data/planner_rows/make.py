"""Trajectories and outside sets as a planner's training data: planner_sft.json, its images and a report.

Decision: only trajectories in which every step was accepted are taught, for a plan whose pictures nobody
could draw is no good plan. What was left out is counted with its reason. Images are copied, each once under
its digest, so the folder can be moved; it appears whole, and replaces nothing but an earlier one of these.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ....backend.chat.protocol import ChatModel
from ....backend.errors import AnswerError, JournalError, PictureError, SettingsError
from ....backend.files.atomic import writing_folder
from ....backend.prompts import PromptSet
from ....backend.types import Trajectory
from ...rows.sft import write_rows
from ...runs.filter import TRAIN
from ...runs.run_folders import find_runs, load_run
from ..accepted import not_accepted
from ..guard.screening import Screening
from ..row_folder import IMAGES, check_place
from ..trajectories.outcomes import read_sample
from .comm import CommFolder
from .gathered import Gathered, PlannerReport, as_lines
from .kinds import Asking, Question, bad_prompt, has_unasked_words
from .outside import Outside
from .settings import PlannerRowsData
from .teacher import Teacher

SFT_FILE, HELD_OUT_FILE, REPORT = "planner_sft.json", "planner_sft_held_out.json", "report.json"
OURS = {SFT_FILE, HELD_OUT_FILE, REPORT}
ANSWERS = "teacher.sqlite"


@dataclass(frozen=True)
class OutsideSets:
    """What comes along besides runs: data files, folders of CoMM, and a teacher that writes the prompts of
    CoMM's pictures."""

    files: Sequence[Path] = ()
    comm: Sequence[Path] = ()
    teacher: ChatModel | None = None


@dataclass(frozen=True)
class PlannerRows:
    """Makes a planner's rows by these settings, in the wording of the planner that is to learn. `fits` says
    whether a question is short enough for it; None: all are."""

    settings: PlannerRowsData
    prompt_set: PromptSet
    guard: Path | None = None
    log: Callable[[str], None] = print
    fits: Callable[[Question], bool] | None = None

    def make(self, runs: Sequence[Path], out: Path, outside: OutsideSets | None = None) -> PlannerReport:
        """Make the rows of `runs` (folders of runs) and of outside sets in the folder `out`.

        Raises SettingsError for an `out` that holds something else, or where no row comes of it, ChatError
        where the teacher is down: its answers are kept beside `out`, and the same call goes on.
        """
        asking = Asking(self.settings.chosen(), self.prompt_set, self.settings.think)
        asking = replace(asking, fits=self.fits) if self.fits else asking
        check_place(out, OURS)
        outside = outside or OutsideSets()
        answers = out.with_name(f"{out.name}.{ANSWERS}")
        teacher = None if outside.teacher is None else Teacher(outside.teacher, answers)
        try:
            with (
                Screening.opened(self.guard) as screening,
                writing_folder(out, SettingsError, "Data folder") as temporary,
            ):
                (temporary / IMAGES).mkdir()
                made = Gathered(temporary)
                for name, folder in self._found(runs):
                    self._add_run(made, name, folder, asking, screening)
                others = Outside(made, asking, screening, self.settings, self.log)
                for path in outside.files:
                    others.add_rows(path)
                for place in outside.comm:
                    others.add_comm(CommFolder(place), teacher)
                report = made.report(screening.report())
                for line in as_lines(report):
                    self.log(line)
                if not made.rows and not made.held_out:
                    raise SettingsError("No row comes of this.", "The table above says why.")
                write_rows(temporary / SFT_FILE, made.rows)
                if made.held_out:
                    write_rows(temporary / HELD_OUT_FILE, made.held_out)
                text = json.dumps(report.model_dump(), indent=1, ensure_ascii=False)
                (temporary / REPORT).write_text(text + "\n", encoding="utf-8")
        finally:
            if teacher:
                teacher.close()
        return report

    def _found(self, runs: Sequence[Path]) -> Iterator[tuple[str, Path]]:
        found = find_runs(runs) if runs else []
        for number, (folder, name) in enumerate(sorted(found, key=lambda item: item[1]), 1):
            yield name, folder
            if number % 500 == 0:
                self.log(f"{number}/{len(found)} runs read")

    def _add_run(self, made: Gathered, name: str, folder: Path, asking: Asking, screening: Screening) -> None:
        made.trajectories += 1
        try:
            trajectory, sample = load_run(folder), read_sample(folder)
            reason = _unfit(name, trajectory, screening)
        except (JournalError, PictureError):
            reason, trajectory, sample = "its folder cannot be read", None, None
        if reason or trajectory is None:
            made.left_out[reason] += 1
            return
        held_out = sample is not None and sample.split not in ("", TRAIN)
        try:
            made.add(asking.questions_of(sample.id if sample else name, trajectory), held_out)
        except PictureError:
            made.left_out["its folder cannot be read"] += 1
            return
        except (AnswerError, SettingsError):
            made.left_out["its texts cannot stand in a row"] += 1
            return
        if has_unasked_words(trajectory):
            made.unasked.append(name)


def _unfit(name: str, trajectory: Trajectory, screening: Screening) -> str:
    if reason := not_accepted(trajectory):
        return reason
    if bad_prompt(trajectory.plan):
        return "a prompt speaks of its step's number or of a previous image"
    found = screening.finds_trajectory(name, trajectory)
    return f"in a benchmark: {found.benchmark}" if found else ""
