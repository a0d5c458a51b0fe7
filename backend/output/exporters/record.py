"""`execution_record.json`: the published data format of a run, one entry per attempt, with its images.

As published, `prompt` is the step's original prompt and `refine_prompt` is what the critic proposed after
seeing `target_img`, "" after True. The file states this (`refine_prompt_is`). An attempt generated with
another prompt than the previous entry proposed (one of several candidates) has `drawn_with`.
execution_record/reader.py reads the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...core.pictures import Picture
from ...core.types import Trajectory
from ...story.execution_record.reader import FILE_NAME, MEANING, read_record
from ...story.execution_record.record import Meaning, Record, RecordEntry, RecordImage, drawn_after, stated
from .export_files import PictureFolder, write_whole

__all__ = ["FILE_NAME", "Record", "RecordEntry", "RecordImage", "export", "read_record"]


KeepPicture = Callable[[Picture, str], str]
"""Stores an image under a name and returns its path relative to the record's folder."""


def export(trajectory: Trajectory, folder: Path) -> Path:
    """Write `folder`/execution_record.json and its images folder, and return the file's path.

    `target_img` is null for an attempt without an image. `success` is null for an attempt that was not judged
    or whose verdict could not be read. `beside_imgs` is present only if the model was shown images next to
    the source image, `cast` (the members without images, and the lists of steps) only if the plan has a cast,
    and `story_checks` only if the story was checked.

    Raises:
        JournalError: The folder cannot be written.
    """
    return write_record(trajectory, Path(folder), PictureFolder(Path(folder)).add)


def write_record(trajectory: Trajectory, folder: Path, keep: KeepPicture) -> Path:
    """Write only `folder`/execution_record.json and return its path. `keep` stores the images.

    Raises:
        JournalError: The file cannot be written.
    """
    content = json.dumps(record_of(trajectory, keep), ensure_ascii=False, indent=2)
    return write_whole(folder / FILE_NAME, content.encode("utf-8"))


def record_of(trajectory: Trajectory, keep: KeepPicture) -> dict[str, Any]:
    """Return the content of the file. `keep` stores the images."""
    for number, picture in enumerate(trajectory.request.images, start=1):
        keep(picture, f"request_{number}")
    entries: list[dict[str, Any]] = []
    for result in trajectory.results:
        following = stated(result.step.prompt)
        for number, attempt in enumerate(result.attempts, start=1):
            stem = f"step_{result.step.number}_attempt_{number}"
            verdict = attempt.verdict
            proposed = "" if verdict is None or verdict.success else verdict.refined_prompt
            entry: dict[str, Any] = {
                "step": result.step.number,
                "prompt": result.step.prompt,
                "refine_prompt": proposed,
                "source_img": attempt.source and keep(attempt.source, f"{stem}_source"),
                "target_img": attempt.image and keep(attempt.image, stem),
                "success": verdict.success if verdict else None,
                "reasoning": verdict.reasoning if verdict else "",
            }
            if attempt.beside:
                entry["beside_imgs"] = [
                    keep(one, f"{stem}_beside_{place}") for place, one in enumerate(attempt.beside, start=1)
                ]
            if stated(attempt.prompt) not in (None, following):
                entry["drawn_with"] = attempt.prompt
            following = drawn_after(stated(attempt.prompt), stated(proposed))
            entries.append(entry)
    plan = [
        {
            "step_number": step.number,
            "step_name": step.name,
            "instruction": step.instruction,
            "prompt": step.prompt,
            "auxiliary_text": step.auxiliary_text,
            **({"cast": list(step.cast)} if step.cast is not None else {}),
        }
        for step in trajectory.plan.drawn_steps
    ]
    context: dict[str, Any] = {"execution_plan": plan}
    if trajectory.plan.cast:
        context["cast"] = [one.model_dump(mode="json", exclude={"images"}) for one in trajectory.plan.cast]
    if trajectory.plan.reasoning:
        context["reasoning"] = trajectory.plan.reasoning
    record = {
        "user_input": trajectory.request.text,
        "global_context": context,
        "steps": entries,
        MEANING: Meaning.proposal.value,
    }
    if trajectory.checks:
        record["story_checks"] = [
            check.model_dump(include={"findings", "reopened", "warning"}) for check in trajectory.checks
        ]
    return record
