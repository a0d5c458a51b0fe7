"""Interleaved sequences for models that generate text and images themselves.

An easy sequence is the final story: plan, image and text, step by step. A hard one contains every attempt
with the critic's feedback, so that such a model learns to check its images. The published form (`quirks`) is
only written on request: it closes `<plan>` with another `<plan>`, has the request as it was typed and
without its images, and may contain tags in its texts. Stories that the published builders drop by accident
(without text in the first step, or with text-only steps) are kept.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

from ...backend.core.errors import PictureError, SettingsError
from ...backend.core.pictures import Picture
from ...backend.core.types import Attempt, StepResult, Trajectory
from ...backend.output.sft_rows import MARK
from ...training.rows.values import DataFolder, data_folder
from .accepted_runs import accepted_runs

FILES = ("sequences_easy.json", "sequences_hard.json")
HELD_OUT_FILES = ("sequences_easy_held_out.json", "sequences_hard_held_out.json")
IMAGE = f"{MARK}<img_token></image>.\n"
TAGS = ("<gthink>", "<plan>", MARK, "<info>", "<critic>", "<img_token>", "<think>")
"""Tags that no text of a story may contain, as they would be read as part of the sequence."""


class SequencesReport(BaseModel):
    """Content of report.json: rows by file, and left-out runs by reason."""

    rows: dict[str, int]
    left_out: dict[str, int]


class InterleavedSequence(NamedTuple):
    """A row before it has files: the user's turn, the answer, and the images of both."""

    user: str
    text: str
    images: tuple[Picture, ...]

    def row(self, folder: DataFolder) -> dict[str, Any]:
        """Return the row, with its images in the folder."""
        turns = [{"role": "user", "content": self.user}, {"role": "assistant", "content": self.text}]
        return {"messages": turns, "images": [folder.keep(one) for one in self.images]}


def easy(trajectory: Trajectory) -> InterleavedSequence:
    """Return the final story."""
    return _sequence(trajectory, lambda result: [(result.image, "")])


def hard(trajectory: Trajectory) -> InterleavedSequence:
    """Return every attempt with the critic's feedback."""
    return _sequence(trajectory, lambda result: [(one.image, _said(one)) for one in result.attempts])


def _sequence(
    trajectory: Trajectory,
    shown: Callable[[StepResult], Sequence[tuple[Picture | None, str]]],
) -> InterleavedSequence:
    parts = [f"<gthink>\n{trajectory.plan.reasoning}\n</gthink>\n"]
    given = trajectory.request.images
    images = list(given)
    for result in trajectory.results:
        step = result.step
        if step.prompt:
            parts.append(f"<plan>\n{step.prompt}\n</plan>\n")
        for picture, said in shown(result):
            if picture is not None:
                images.append(picture)
                parts.append(IMAGE + said)
        if step.auxiliary_text is not None:
            parts.append(f"<info>\n{step.auxiliary_text}\n</info>\n")
    text = trajectory.request.text
    marked = text.count(MARK) == len(given)
    text = text.replace(MARK, IMAGE.strip()) if marked else IMAGE * len(given) + text
    return InterleavedSequence(text, "".join(parts), tuple(images))


def _said(attempt: Attempt) -> str:
    verdict = attempt.verdict
    if verdict is None or verdict.success is None:
        return ""
    proposed = "" if verdict.success else verdict.refined_prompt
    word = json.dumps({"success": verdict.success, "refine_prompt": proposed}, ensure_ascii=False)
    return f"<critic>\n<think>\n{verdict.reasoning}\n</think>\n{word}\n</critic>\n"


def unfit(trajectory: Trajectory) -> str:
    """Return why a trajectory cannot be used for a sequence, or an empty text."""
    request = trajectory.request
    are_marks = request.text.count(MARK) == len(request.images)
    texts = [request.text.replace(MARK, "") if are_marks else request.text, trajectory.plan.reasoning]
    for result in trajectory.results:
        texts += [result.step.prompt or "", result.step.auxiliary_text or ""]
        verdicts = [one.verdict for one in result.attempts if one.verdict]
        texts += [text for one in verdicts for text in (one.reasoning, one.refined_prompt)]
    has_tags = any(tag in text for text in texts for tag in TAGS)
    return "its text is not allowed in a sequence" if has_tags else ""


def make_sequences(runs: Sequence[Path], out: Path, log: Callable[[str], None] = print) -> dict[str, int]:
    """Write the easy and hard sequences of `runs` to the folder `out`.

    Returns:
        Number of rows by file.

    Raises:
        SettingsError: `out` contains other files, or no sequences could be created.
    """
    files: dict[str, list[dict[str, Any]]] = {name: [] for name in (*FILES, *HELD_OUT_FILES)}
    left_out = Counter[str]()
    with data_folder(out, files) as folder:
        for run in accepted_runs(runs, unfit, left_out):
            try:
                rows = [build(run.trajectory).row(folder) for build in (easy, hard)]
            except PictureError:
                left_out["its folder cannot be read"] += 1
                continue
            for name, row in zip(HELD_OUT_FILES if run.held_out else FILES, rows, strict=True):
                files[name].append(row)
        counts = {name: len(rows) for name, rows in files.items() if rows}
        lines = [f"{name}: {count} sequences" for name, count in counts.items()]
        lines += [f"left out {count}: {reason}" for reason, count in left_out.most_common()]
        for line in lines:
            log(line)
        if not counts:
            raise SettingsError("No sequences could be created.", "The lines above give the reasons.")
        for name in counts:
            text = json.dumps(files[name], ensure_ascii=False, indent=1)
            (folder.path / name).write_text(text + "\n", encoding="utf-8")
        folder.report(SequencesReport(rows=counts, left_out=dict(left_out)))
    return counts
