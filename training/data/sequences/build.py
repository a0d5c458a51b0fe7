"""Trajectories as interleaved sequences, the form in which a model that writes and draws by itself learns
them.

Decisions. Easy is the story as it ended: plan, image, words, step by step. Hard shows every attempt with what
the critic said of it, so that such a model learns to look at what it drew. The published form closes `<plan>`
by another `<plan>`; that is written only on request. What the published builders drop by accident (stories
whose first step has no words, or in which a step is text alone) is kept here.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....backend.errors import JournalError, PictureError, SettingsError
from ....backend.files.atomic import writing_folder
from ....backend.pictures import Picture
from ....backend.types import Attempt, StepResult, Trajectory
from ...runs.filter import TRAIN
from ...runs.run_folders import find_runs, load_run
from ..accepted import not_accepted
from ..guard.screening import Screening
from ..row_folder import IMAGES, check_place, keep_picture
from ..trajectories.outcomes import read_sample

EASY, HARD = "sequences_easy.json", "sequences_hard.json"
EASY_HELD_OUT, HARD_HELD_OUT = "sequences_easy_held_out.json", "sequences_hard_held_out.json"
REPORT = "report.json"
OURS = {EASY, HARD, EASY_HELD_OUT, HARD_HELD_OUT, REPORT}
IMAGE = "<image><img_token></image>.\n"
TAGS = ("<gthink>", "<plan>", "<image>", "<info>", "<critic>", "<img_token>", "<think>")
"""What no text of a story may hold: it would be read as the sequence's own."""


@dataclass(frozen=True)
class InterleavedSequence:
    """A row before it has files."""

    user: str
    text: str
    images: tuple[Picture, ...]


def easy(trajectory: Trajectory, quirks: bool = False) -> InterleavedSequence:
    """The story as it ended."""
    return _sequence(trajectory, lambda result: [(result.image, "")] if result.image else [], quirks)


def hard(trajectory: Trajectory, quirks: bool = False) -> InterleavedSequence:
    """Every attempt, each with the critic's word on it."""
    return _sequence(
        trajectory, lambda result: [(one.image, _said(one)) for one in result.attempts if one.image], quirks
    )


def _sequence(
    trajectory: Trajectory,
    shown: Callable[[StepResult], Sequence[tuple[Picture | None, str]]],
    quirks: bool,
) -> InterleavedSequence:
    closing = "<plan>" if quirks else "</plan>"
    parts = [f"<gthink>\n{trajectory.plan.reasoning}\n</gthink>\n"]
    given = trajectory.request.images
    images = list(given)
    for result in trajectory.results:
        step = result.step
        if step.prompt:
            parts.append(f"<plan>\n{step.prompt}\n{closing}\n")
        for picture, said in shown(result):
            if picture is not None:
                images.append(picture)
                parts.append(IMAGE + said)
        if step.auxiliary_text is not None:
            parts.append(f"<info>\n{step.auxiliary_text}\n</info>\n")
    return InterleavedSequence(IMAGE * len(given) + trajectory.request.text, "".join(parts), tuple(images))


def _said(attempt: Attempt) -> str:
    verdict = attempt.verdict
    if verdict is None or verdict.success is None:
        return ""
    proposed = "" if verdict.success else verdict.refined_prompt
    word = json.dumps({"success": verdict.success, "refine_prompt": proposed}, ensure_ascii=False)
    return f"<critic>\n<think>\n{verdict.reasoning}\n</think>\n{word}\n</critic>\n"


def unfit(trajectory: Trajectory) -> str:
    """Why a trajectory gives no sequence; empty if it gives one."""
    if reason := not_accepted(trajectory):
        return reason
    if any(tag in text for text in _texts(trajectory) for tag in TAGS):
        return "its texts cannot stand in a sequence"
    return ""


def _texts(trajectory: Trajectory) -> list[str]:
    texts = [trajectory.request.text, trajectory.plan.reasoning]
    for result in trajectory.results:
        texts += [result.step.prompt or "", result.step.auxiliary_text or ""]
        texts += [
            text
            for one in result.attempts
            if one.verdict
            for text in (one.verdict.reasoning, one.verdict.refined_prompt)
        ]
    return texts


@dataclass
class _Made:
    files: dict[str, list[dict[str, Any]]] = field(
        default_factory=lambda: {name: [] for name in (EASY, HARD, EASY_HELD_OUT, HARD_HELD_OUT)}
    )
    left_out: Counter[str] = field(default_factory=Counter)


def make_sequences(
    runs: Sequence[Path],
    out: Path,
    quirks: bool = False,
    guard: Path | None = None,
    log: Callable[[str], None] = print,
) -> dict[str, int]:
    """Write the easy and hard sequences of `runs` into the folder `out`; returns rows by file.

    Raises SettingsError for an `out` that holds something else, or where no row comes of it.
    """
    check_place(out, OURS)
    made = _Made()
    with (
        Screening.opened(guard) as screening,
        writing_folder(out, SettingsError, "Data folder") as temporary,
    ):
        (temporary / IMAGES).mkdir()
        for folder, name in sorted(find_runs(runs), key=lambda item: item[1]):
            _add(made, (folder, name), screening, quirks, temporary)
        counts = {name: len(rows) for name, rows in made.files.items() if rows}
        for line in _lines(counts, made.left_out):
            log(line)
        if not counts:
            raise SettingsError("No sequence comes of these runs.", "The table above says why.")
        for name in counts:
            text = json.dumps(made.files[name], ensure_ascii=False, indent=1)
            (temporary / name).write_text(text + "\n", encoding="utf-8")
        screened = screening.report()
        report = {
            "rows": counts,
            "left_out": dict(made.left_out.most_common()),
            "published_quirks": quirks,
            "guard": screened.model_dump() if screened else None,
        }
        (temporary / REPORT).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return counts


def _add(made: _Made, run: tuple[Path, str], screening: Screening, quirks: bool, out: Path) -> None:
    folder, name = run
    try:
        trajectory, sample = load_run(folder), read_sample(folder)
        reason = unfit(trajectory)
        if not reason and (found := screening.finds_trajectory(name, trajectory)):
            reason = f"in a benchmark: {found.benchmark}"
    except (JournalError, PictureError):
        reason, trajectory, sample = "its folder cannot be read", None, None
    if reason or trajectory is None:
        made.left_out[reason] += 1
        return
    held_out = sample is not None and sample.split not in ("", TRAIN)
    for file, other, build in ((EASY, EASY_HELD_OUT, easy), (HARD, HARD_HELD_OUT, hard)):
        row = build(trajectory, quirks)
        turns = [{"role": "user", "content": row.user}, {"role": "assistant", "content": row.text}]
        images = [keep_picture(picture, out) for picture in row.images]
        made.files[other if held_out else file].append({"messages": turns, "images": images})


def _lines(counts: dict[str, int], left_out: Counter[str]) -> list[str]:
    lines = [
        "| file | sequences |",
        "|---|---|",
        *(f"| {name} | {count} |" for name, count in counts.items()),
    ]
    if left_out:
        lines += ["", "| left out, because | trajectories |", "|---|---|"]
        lines += [f"| {reason} | {count} |" for reason, count in left_out.most_common()]
    return lines
