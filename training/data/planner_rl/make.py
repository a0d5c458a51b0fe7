"""Prompts become rows of a planner's reinforcement: planner_rl.jsonl, its images and a report.

Decision: the folder appears whole at the end; what is kept on the way are the teacher's answers, beside it,
so that the same call goes on after a stop and asks nothing twice. Prompts that were set apart (any split but
"train") go to a file of their own, to check on.
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
"""Prompts whose images are held at a time."""


class PlannerRlReport(BaseModel):
    """The content of report.json: rows, rows to check on, items of a list on average, and what was left out
    for which reason."""

    prompts: int = 0
    rows: int = 0
    held_out: int = 0
    items: float = 0.0
    counted: int = 0
    left_out: dict[str, int] = {}
    guard: Screened | None = None


@dataclass(frozen=True)
class PromptSelection:
    """A prompt file, where its images are looked for besides, an index of benchmarks, and how many prompts
    are taken at most."""

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
    """Ask the teacher for a checklist of every prompt, `parallel` at a time, and write the rows into the
    folder `out`.

    Raises SettingsError for an `out` that holds something else or where no row comes of it, ChatError where
    the teacher is down: the same call goes on.
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
                raise SettingsError("No row comes of this.", "The lines above say why.")
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
    """The rows of some prompts, in their order, whoever was answered first."""
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
        f"{report.rows} rows and {report.held_out} to check on, of {report.prompts} prompts; "
        f"{report.items:.1f} items a list; {report.counted} say how many steps there are to be"
    )
    for reason, count in report.left_out.items():
        yield f"left out {count}: {reason}"
    if report.guard:
        yield f"Prompts {report.guard.as_line()}."
