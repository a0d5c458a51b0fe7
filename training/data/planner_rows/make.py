"""Converts trajectories and outside sets to a planner's training data: planner_sft.json, images and a report.

Only trajectories in which every step was accepted are used, since a plan whose images could not be generated
is not a good plan. What is left out is counted by reason. Images are copied once and named by their digest,
so that the folder can be moved. It appears only when complete, and replaces only an earlier folder of this
kind.
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
    """Data in addition to runs: data files, folders of CoMM, and a teacher for the prompts of its images."""

    files: Sequence[Path] = ()
    comm: Sequence[Path] = ()
    teacher: ChatModel | None = None


@dataclass(frozen=True)
class PlannerRows:
    """Creates a planner's rows, with the prompt set of the planner to train.

    `fits` checks whether a question is short enough for it; None accepts all. `executor` reads runs in
    parallel.
    """

    settings: PlannerRowsData
    prompt_set: PromptSet
    guard: Path | None = None
    log: Callable[[str], None] = print
    fits: Callable[[PlannerQuestion], bool] | None = None
    executor: Executor = ONE_BY_ONE

    def make(self, runs: Sequence[Path], out: Path, outside: OutsideSets | None = None) -> PlannerReport:
        """Write the rows of `runs` (folders of runs) and of outside sets to the folder `out`.

        Raises:
            SettingsError: `out` contains other files, or no rows could be created.
            ChatError: The teacher is unavailable; its answers are cached next to `out`, and the same call
                resumes.
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
                    raise SettingsError(
                        "No training rows could be created from these runs and sets.",
                        "The table above gives the reasons.",
                    )
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
