"""Turns runs into a submission, which is written completely and read back like the evaluator will read it.

A gap is an item that was not run, failed, or lacks a required image. Gaps are an error unless they are
allowed. An allowed gap is recorded in the list of items, so that it counts zero even if the evaluator ignores
it. The new submission replaces an earlier one only if it can be read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePath

from pydantic import BaseModel, ConfigDict, ValidationError

from ...backend.core.errors import SettingsError
from ...backend.core.files.atomic import remove, write_text, writing_folder
from ...backend.core.files.bounded_reader import read_bytes
from ...backend.core.types import StopReason, Trajectory
from ...backend.story.loop.replay import load_trajectory
from ..benchmarks.benchmark import Benchmark, BenchmarkItem, ItemAnswer, ItemFault, SubmissionPlace
from ..data.trajectories import is_done, read_outcome, seconds_of
from .benchmark_run import ITEMS, open_folder, row_of

SUBMISSION = "submission"
LIST = "collected.jsonl"
MAX_LIST = 256 * 1024 * 1024
SHOWN = 10
Log = Callable[[str], None]


class CollectedItem(BaseModel):
    """Summary of an item.

    Attributes:
        gap: Why it has no answer; empty if it has one.
        steps: Steps of the plan.
        drawn_steps: Steps with at least one attempt.
        draws: Number of attempts.
        forced: Steps that used up their attempts without an accepted image.
        undrawn: Steps without image because generating it failed.
        seconds: Time of generator and critic.
    """

    model_config = ConfigDict(extra="ignore")

    id: str
    category: str
    gap: str = ""
    steps: int = 0
    drawn_steps: int = 0
    draws: int = 0
    forced: int = 0
    undrawn: int = 0
    seconds: float = 0.0


def collect(out: Path, with_gaps: bool = False, relative_to: Path | None = None, log: Log = print) -> Path:
    """Write and check `out`/submission, and list its items.

    Args:
        out: Folder of the benchmark.
        with_gaps: Allow items without an answer.
        relative_to: Folder to which paths in the submission are relative.
        log: Receives notes.

    Returns:
        The folder of the submission.

    Raises:
        SettingsError: If items have gaps and these are not allowed, or the evaluator could not read
            everything.
        JournalError: If a run is damaged.
    """
    setting, benchmark, items = open_folder(out)
    listed: list[CollectedItem] = []
    folder = out / SUBMISSION
    shown = PurePath(os.path.abspath(folder))
    if relative_to is not None:
        shown = PurePath(os.path.relpath(folder, relative_to))
    with writing_folder(folder, SettingsError, "Submission") as temporary:
        answers = _answers(out, benchmark, items, listed)
        notes = benchmark.write(SubmissionPlace(temporary, shown, setting.as_published), answers)
        gaps = {one.id: one.gap for one in listed if one.gap}
        if gaps and not with_gaps:
            raise SettingsError(
                f"{len(gaps)} of {len(items)} items have no answer: {_some(list(gaps.items()))}.",
                "Finish the benchmark (--set retry_failed=true), or collect --with-gaps counts them as zero.",
            )
        faults = [fault for fault in benchmark.read(temporary, items) if fault.item not in gaps]
        if faults:
            raise SettingsError(
                f"The evaluator could not read {len(faults)} items of the submission: {_faults(faults)}."
            )
        # If the process is killed in between, the old list must not remain next to the new submission.
        remove(out / LIST, SettingsError, "List of items")
    lines = [one.model_dump_json(exclude_defaults=True) + "\n" for one in listed]
    write_text(out / LIST, "".join(lines), SettingsError, "List of items")
    for note in notes[:SHOWN]:
        log(note)
    if len(notes) > SHOWN:
        log(f"... and {len(notes) - SHOWN} more")
    undrawn = sum(bool(one.undrawn) for one in listed)
    if undrawn:
        log(f"items with a step whose image could not be generated, judged without it: {undrawn}")
    gap_line = f", {len(gaps)} of them gaps that count as zero" if gaps else ""
    log(f"{len(items)} items{gap_line}; submission checked: {folder}")
    return folder


def _answers(
    out: Path,
    benchmark: Benchmark,
    items: Sequence[BenchmarkItem],
    listed: list[CollectedItem],
) -> Iterator[tuple[BenchmarkItem, ItemAnswer | None]]:
    """Yield the items with their answers, one run in memory at a time, and fill `listed`."""
    for item in items:
        row = row_of(item)
        folder = out / ITEMS / row.folder
        if not is_done(folder):
            failed = read_outcome(folder)
            gap = f"{failed.where}: {failed.reason}" if failed else "not finished"
            listed.append(CollectedItem(id=item.id, category=item.category, gap=gap))
            yield item, None
            continue
        trajectory = load_trajectory(folder)
        answer = ItemAnswer.of(trajectory)
        gap = ""
        if not answer.pictures and (benchmark.needs_image or not any(step.text for step in answer.steps)):
            gap = "it has no image or text"
        listed.append(_collected(item, trajectory, folder, gap))
        yield item, None if gap else answer


def _collected(item: BenchmarkItem, trajectory: Trajectory, folder: Path, gap: str) -> CollectedItem:
    drawn = [result for result in trajectory.results if result.attempts]
    return CollectedItem(
        id=item.id,
        category=item.category,
        gap=gap,
        steps=len(trajectory.plan.steps),
        drawn_steps=len(drawn),
        draws=sum(attempt.place == 0 for result in drawn for attempt in result.attempts),
        forced=sum(result.stop_reason == StopReason.attempts_used_up for result in drawn),
        undrawn=sum(result.stop_reason == StopReason.error for result in drawn),
        seconds=seconds_of(folder),
    )


def read_collected(out: Path) -> list[CollectedItem]:
    """Read the list that `collect` wrote.

    Raises:
        SettingsError: If it is missing or damaged.
    """
    if not (out / LIST).exists():
        raise SettingsError(f"{str(out)!r} has no submission.", "Run benchmark collect first.")
    lines = read_bytes(out / LIST, MAX_LIST, SettingsError, "List of items").splitlines()
    try:
        return [CollectedItem.model_validate_json(line) for line in lines]
    except ValidationError as error:
        raise SettingsError(f"{str(out / LIST)!r} is damaged.", "Run benchmark collect again.") from error


def _some(gaps: list[tuple[str, str]]) -> str:
    shown = "; ".join(f"{name}: {reason.rstrip('.')}" for name, reason in gaps[:3])
    return f"{shown}; ..." if len(gaps) > 3 else shown


def _faults(faults: Sequence[ItemFault]) -> str:
    return "; ".join(map(str, faults[:3])) + ("; ..." if len(faults) > 3 else "")
