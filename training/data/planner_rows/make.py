"""Trajectories and outside sets as a planner's training data: planner_sft.json, its images and a report.

Decision: only trajectories in which every step was accepted are taught, for a plan whose pictures nobody
could draw is no good plan. What was left out is counted with its reason. Images are copied, each once under
its digest, so the folder can be moved; it appears whole, and replaces nothing but an earlier one of these.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ....backend.chat.protocol import ChatModel
from ....backend.errors import SettingsError
from ....backend.files.atomic import writing_folder
from ....backend.prompts import PromptSet
from ..decontamination.screening import Screening
from ..executors import Executor
from ..executors.ordered import in_order
from ..executors.threads import ThreadExecutor
from ..from_runs.reading import places_of
from ..rows.row_folder import IMAGES, check_place, only_these
from ..rows.sft import write_rows
from .comm import CommFolder
from .gathered_rows import GatheredRows, PlannerReport, as_lines
from .kinds import PlannerQuestion, QuestionMaker
from .outside import OutsideRows
from .run_rows import WriteRows
from .settings import PlannerRowsData
from .teacher import PromptTeacher

SFT_FILE, HELD_OUT_FILE, REPORT = "planner_sft.json", "planner_sft_held_out.json", "report.json"
OURS = {SFT_FILE, HELD_OUT_FILE, REPORT}
ANSWERS = "teacher.sqlite"
ONE_BY_ONE = ThreadExecutor(1)


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
    whether a question is short enough for it; None: all are. Runs are read side by side as `executor` does
    it."""

    settings: PlannerRowsData
    prompt_set: PromptSet
    guard: Path | None = None
    log: Callable[[str], None] = print
    fits: Callable[[PlannerQuestion], bool] | None = None
    executor: Executor = ONE_BY_ONE

    def make(self, runs: Sequence[Path], out: Path, outside: OutsideSets | None = None) -> PlannerReport:
        """Make the rows of `runs` (folders of runs) and of outside sets in the folder `out`.

        Raises SettingsError for an `out` that holds something else, or where no row comes of it, ChatError
        where the teacher is down: its answers are kept beside `out`, and the same call goes on.
        """
        asking = QuestionMaker(self.settings.chosen(), self.prompt_set, self.settings.think, self.fits)
        check_place(out, OURS)
        outside = outside or OutsideSets()
        answers = out.with_name(f"{out.name}.{ANSWERS}")
        teacher = None if outside.teacher is None else PromptTeacher(outside.teacher, answers)
        try:
            with (
                Screening.opened(self.guard) as screening,
                writing_folder(out, SettingsError, "Data folder") as temporary,
            ):
                (temporary / IMAGES).mkdir()
                made = GatheredRows(temporary)
                self._add_runs(made, runs, asking, screening)
                others = OutsideRows(made, asking, screening, self.settings, self.log)
                for path in outside.files:
                    others.add_rows(path)
                for place in outside.comm:
                    others.add_comm(CommFolder(place), teacher)
                only_these(temporary, (row.images for row in (*made.rows, *made.held_out)))
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

    def _add_runs(
        self, made: GatheredRows, runs: Sequence[Path], asking: QuestionMaker, screening: Screening
    ) -> None:
        places = places_of(runs)
        job = WriteRows(made.folder.absolute(), asking, self.guard and self.guard.absolute())
        written = in_order(self.executor, job, places, lambda one: one.name, self.log)
        for place, rows in zip(places, written, strict=True):
            screening.counted(place.name, rows.finding)
            made.add_run(place.name, rows)
