"""Adds outside sets to a planner's rows: existing rows and items of CoMM.

These files come from others. Items that cannot be used are left out one by one and counted, and all others
are compared with the guard, like our own trajectories.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

from ....backend.errors import AnswerError, PictureError, SettingsError
from ....backend.pictures import Picture
from ..decontamination.screening import Screening
from ..rows.row_folder import keep_image
from ..rows.row_kinds import refuse_other_role
from ..rows.sft import check_rows, show_problems
from .comm import CommFolder, CommStory
from .gathered_rows import GatheredRows
from .kinds import QuestionMaker
from .run_rows import NO_ROW, RunRows, rows_of
from .settings import PlannerRowsData
from .teacher import PromptTeacher, all_of

AT_A_TIME = 64
"""Number of stories whose images are in memory."""
NO_PROMPTS = ("description",)
WITH_PROMPTS = ("continuation", "description", "count")
"""Kinds of rows from items of CoMM, which have no reasoning for a whole plan."""
Item = TypeVar("Item")


@dataclass(frozen=True)
class OutsideRows:
    """Adds outside sets to the collected rows."""

    made: GatheredRows
    asking: QuestionMaker
    screening: Screening
    settings: PlannerRowsData
    log: Callable[[str], None] = print

    def add_rows(self, path: Path) -> None:
        """Add the rows of a data file (`messages`, `images`).

        Raises:
            SettingsError: The file does not contain rows, or those of a critic.
        """
        rows, problems = check_rows(path, skip_bad=True)
        show_problems(problems, len(rows), self.log)
        refuse_other_role(path, rows, "planner")
        if problems:
            self.made.left_out["a row of an outside file that cannot be used"] += len(problems)
        for number, row in enumerate(rows[: self.settings.outside_limit]):
            try:
                pictures = [Picture.open(path.parent / name) for name in row.images]
            except PictureError:
                self.made.left_out["a row of an outside file that cannot be used"] += 1
                continue
            texts = [turn.content for turn in row.messages if turn.role != "system"]
            found = self.screening.finds(f"{path.name}, {row.place or f'row {number}'}", texts, pictures)
            if found:
                self.made.left_out[f"in a benchmark: {found.benchmark}"] += 1
                continue
            self.made.outside_items += 1
            names = [keep_image(picture, self.made.folder) for picture in pictures]
            self.made.add_row(row, names)

    def add_comm(self, folder: CommFolder, teacher: PromptTeacher | None) -> None:
        """Add items of CoMM.

        Raises:
            SettingsError: The folder does not contain them, or is the test set.
            ChatError: The teacher is unavailable.
        """
        before = sum(self.made.kinds.values())
        stories = folder.stories()
        read = map(stories.read, folder.items(self.screening.guard, self.settings.outside_limit))
        for number, several in enumerate(_batched(read, AT_A_TIME)):
            usable = [story for one in several if (story := self._usable(one)) is not None]
            if teacher is None:
                for story in usable:
                    self._add(story, None)
            else:
                for story, prompts in zip(
                    usable, all_of(usable, teacher, self.settings.parallel), strict=True
                ):
                    self._add(story, prompts)
            if number % 10 == 9:
                self.log(f"{(number + 1) * AT_A_TIME} items of CoMM read")
        if sum(self.made.kinds.values()) == before:
            self.log(f"no rows could be created from {folder.place}; the table gives the reasons")

    def _usable(self, story: CommStory | str) -> CommStory | None:
        if isinstance(story, str):
            self.made.left_out[story] += 1
            return None
        found = self.screening.finds(story.id, story.texts, story.pictures, [story.id])
        if found:
            self.made.left_out[f"in a benchmark: {found.benchmark}"] += 1
            return None
        return story

    def _add(self, story: CommStory, prompts: list[str] | str | None) -> None:
        if isinstance(prompts, str):
            self.made.left_out[prompts] += 1
            return
        trajectory = story.described() if prompts is None else story.with_prompts(prompts)
        if trajectory is None:
            self.made.left_out["an item with fewer than two images that have texts"] += 1
            return
        taught = NO_PROMPTS if prompts is None else WITH_PROMPTS
        asking = replace(self.asking, kinds=[kind for kind in self.asking.kinds if kind in taught])
        self.made.outside_items += 1
        try:
            asked = asking.questions_of(story.id, trajectory)
            self.made.add(RunRows(rows_of(asked, self.made.folder), cut=asked.cut, too_long=asked.too_long))
        except (AnswerError, SettingsError):
            self.made.left_out[NO_ROW] += 1


def _batched(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    source = iter(items)
    while batch := list(islice(source, size)):
        yield batch
