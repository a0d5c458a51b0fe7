"""Creates the rows of a planner's GRPO training from prompts: planner_rl.jsonl, its images and a report.

The folder appears only when complete. The teacher's answers are cached next to it, so that an interrupted
call resumes without asking again. Prompts with a split other than "train" go to a held-out file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from pydantic import BaseModel, ValidationError

from ....backend.chat.protocol import ChatModel
from ....backend.errors import PictureError, SettingsError
from ....backend.files.atomic import writing_folder
from ....backend.pictures import Picture
from ..decontamination.screening import Screened, Screening
from ..rows.planner_rl import PlannerRlRow, write_planner_rl
from ..rows.row_folder import IMAGES, check_place, keep_image
from ..rows.sft import RowProblem, show_problems
from ..trajectories.prompt_rows import Prompt, read_prompts
from .checklist import Checklist, ChecklistTeacher

RL_FILE, HELD_OUT_FILE, REPORT = "planner_rl.jsonl", "planner_rl_held_out.jsonl", "report.json"
OURS = {RL_FILE, HELD_OUT_FILE, REPORT}
TRAIN = ("", "train")
AT_ONCE = 256
"""Number of prompts whose images are in memory at a time."""


class PlannerRlReport(BaseModel):
    """Content of report.json.

    Attributes:
        prompts: Number of prompts.
        rows: Number of training rows.
        held_out: Number of held-out rows.
        items: Mean number of checklist items.
        counted: Rows with a requested number of steps.
        left_out: Left-out prompts by reason.
        guard: What the guard left out.
    """

    prompts: int = 0
    rows: int = 0
    held_out: int = 0
    items: float = 0.0
    counted: int = 0
    left_out: dict[str, int] = {}
    guard: Screened | None = None


@dataclass(frozen=True)
class PromptSelection:
    """A prompt file, an additional folder of images, an index of benchmarks and a limit of prompts."""

    prompts: Path
    images: Path | None = None
    guard: Path | None = None
    limit: int | None = None


@dataclass
class _Made:
    rows: list[PlannerRlRow]
    held_out: list[PlannerRlRow]
    left_out: Counter[str]


def make_planner_rl(
    source: PromptSelection, chat: ChatModel, out: Path, parallel: int = 8, log: Callable[[str], None] = print
) -> PlannerRlReport:
    """Ask the teacher for a checklist of every prompt, `parallel` at a time, and write the rows to `out`.

    Raises:
        SettingsError: `out` contains other files, or no rows could be created.
        ChatError: The teacher is unavailable; the same call resumes.
    """
    check_place(out, OURS)
    prompts, problems = read_prompts(source.prompts, source.images)
    show_problems(problems, len(prompts), log)
    prompts = prompts[: source.limit]
    teacher = ChecklistTeacher(chat, out.with_name(f"{out.name}.teacher.sqlite"))
    made = _Made([], [], Counter())
    try:
        with (
            Screening.opened(source.guard) as screening,
            writing_folder(out, SettingsError, "Data folder") as temporary,
        ):
            (temporary / IMAGES).mkdir()
            done = 0
            for part in _parts(prompts):
                _add(part, teacher, screening, temporary, made, parallel)
                done += len(part)
                log(f"{done}/{len(prompts)} prompts")
            report = _report(len(prompts), made, screening.report())
            for line in _lines(report):
                log(line)
            if not made.rows:
                raise SettingsError(
                    "No training rows could be created from these prompts.",
                    "The lines above give the reasons.",
                )
            write_planner_rl(temporary / RL_FILE, made.rows)
            if made.held_out:
                write_planner_rl(temporary / HELD_OUT_FILE, made.held_out)
            text = json.dumps(report.model_dump(), indent=1, ensure_ascii=False)
            (temporary / REPORT).write_text(text + "\n", encoding="utf-8")
    finally:
        teacher.close()
    return report


def _parts(prompts: Sequence[Prompt]) -> Iterator[list[Prompt]]:
    rest = iter(prompts)
    while part := list(islice(rest, AT_ONCE)):
        yield part


def _add(
    part: Sequence[Prompt],
    teacher: ChecklistTeacher,
    screening: Screening,
    folder: Path,
    made: _Made,
    parallel: int,
) -> None:
    """Add the rows of some prompts, in their order."""
    asked: list[tuple[Prompt, list[Picture]]] = []
    for prompt in part:
        try:
            pictures = [Picture.open(path) for path in prompt.images]
        except PictureError:
            made.left_out["an image cannot be read"] += 1
            continue
        if found := screening.finds(prompt.row.id, [prompt.row.user_input], pictures, [prompt.row.id]):
            made.left_out[f"in a benchmark: {found.benchmark}"] += 1
            continue
        asked.append((prompt, pictures))
    with ThreadPoolExecutor(max(1, min(parallel, len(asked)))) as pool:
        lists = list(pool.map(lambda one: teacher.checklist(one[0].row.user_input, one[1]), asked))
    for (prompt, pictures), found in zip(asked, lists, strict=True):
        if isinstance(found, str):
            made.left_out[found] += 1
            continue
        try:
            row = _row(prompt, found, teacher.chat.identity, [keep_image(one, folder) for one in pictures])
        except ValidationError as error:
            made.left_out[f"not a row ({RowProblem.of(prompt.row.id, error).field})"] += 1
            continue
        (made.rows if prompt.row.split in TRAIN else made.held_out).append(row)


def _row(prompt: Prompt, found: Checklist, judge: str, images: list[str]) -> PlannerRlRow:
    request = prompt.row.user_input
    return PlannerRlRow(
        request=request,
        images=images,
        checklist=found.checklist,
        steps=found.asked_steps(request),
        judge=judge[:2000],
        id=prompt.row.id,
    )


def _report(prompts: int, made: _Made, screened: Screened | None) -> PlannerRlReport:
    every = [*made.rows, *made.held_out]
    return PlannerRlReport(
        prompts=prompts,
        rows=len(made.rows),
        held_out=len(made.held_out),
        items=sum(len(row.checklist) for row in every) / max(1, len(every)),
        counted=sum(row.steps is not None for row in every),
        left_out=dict(made.left_out.most_common()),
        guard=screened,
    )


def _lines(report: PlannerRlReport) -> Iterator[str]:
    yield (
        f"{report.rows} training rows and {report.held_out} held-out rows from {report.prompts} prompts; "
        f"{report.items:.1f} items per checklist; {report.counted} rows with a requested number of steps"
    )
    for reason, count in report.left_out.items():
        yield f"left out {count}: {reason}"
    if report.guard:
        yield f"Prompts {report.guard.as_line()}."
