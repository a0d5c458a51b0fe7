"""A story as one plain file for programs (`story.json`), and as one file to share (a zip of the run folder).

It contains what a reader sees, in reading order, and how reliable each image is. Training reads the record
instead (record.py). The models below define and document the format. A new
field does not change the version, a field with another meaning does. The zip contains everything (plan, all
attempts, all images at full quality, settings) and the graph that made it, so its recipient can load the
story, export it in any format and continue it (journal/archive.py).
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field

from ...core.errors import JournalError
from ...core.pictures import Picture
from ...core.types import CastMember, RunSettings, StopReason, Text, Trajectory, Value
from ...core.types.cast import MemberKind
from ...core.types.clip import Clip
from ...core.types.values import SparseValue
from ...story.clips import clips_of
from ...story.journal.archive import PAGE, WORKFLOW, pack_run
from ...story.journal.copy import save_trajectory
from ...story.outcomes import (
    AttemptOutcome,
    StoryStep,
    outcome,
    stop_sentence,
    story_steps,
    summarize,
    title_of,
)
from .export_files import PictureFolder, write_whole
from .page import export as export_page

FILE_NAME = "story.json"
FORMAT = "interleave-thinker story"
VERSION = 1

State = Literal[
    "accepted", "picked", "not accepted", "not judged", "not checked", "stopped", "text", "not drawn",
    "failed", "not reached", "skipped",
]  # fmt: skip
ENDS: dict[StopReason, State] = {
    StopReason.accepted: "accepted",
    StopReason.picked: "picked",
    StopReason.approved_by_time: "not accepted",
    StopReason.redrawn: "not accepted",
    StopReason.unjudged: "not judged",
    StopReason.unchecked: "not checked",
    StopReason.attempts_used_up: "not accepted",
}
"""States of steps with an image; all others were stopped."""
UNFINISHED = ("stopped", "not drawn", "failed", "not reached")


class StoryImage(Value):
    """An image of the story: path of a PNG file, relative to story.json, and its size in pixels."""

    file: str
    width: int
    height: int


class StoryClip(Value):
    """A video that leads from the image before to the image of a step.

    `file` is the path of an MP4 file, relative to story.json, and `seconds` its duration.
    """

    file: str
    seconds: float
    width: int
    height: int


class StoryAttempt(Value):
    """One attempt at a step.

    Attributes:
        prompt: Prompt of this attempt.
        seed: Seed of the sampler.
        image: Null if the generation failed.
        outcome: accepted, refused (rejected), not understood (the critic's reply could not be read), not
            checked (its checklist was not answered), not judged or failed.
        reasoning: The critic's reasoning.
        error: Why generating or judging failed; empty if it did not.
    """

    prompt: Text
    seed: int
    image: StoryImage | None
    outcome: AttemptOutcome
    reasoning: Text
    error: Text


class StoryPart(SparseValue):
    """One step of the story.

    Attributes:
        number: Number of the step in the plan; numbers increase.
        name: Name from the plan.
        text: Caption of the image, or the text of a text-only step.
        prompt: Prompt from the plan; empty in a text-only step.
        image: Chosen image of the step; null in a text-only step or if there is none.
        state: accepted (by the critic), picked (by the user), not accepted (shown anyway), not judged, not
            checked (its checklist was not answered), stopped (canceled or out of time after the first image),
            text (a text-only step), not drawn (stopped before the first image), failed (no image could be
            generated), not reached, skipped (by the user).
        why: The state as a sentence.
        attempts: All attempts in order, including rejected ones.
        settings: The step's own settings from the plan, files by name; absent without any.
        clip: Video from the image before to the image of this step; absent without one.
    """

    omitted = ("settings", "clip")

    number: int
    name: Text
    text: Text
    prompt: Text
    image: StoryImage | None
    state: State
    why: str
    attempts: tuple[StoryAttempt, ...]
    settings: dict[str, str | int | float] = Field(default={})
    clip: StoryClip | None = None


class StoryMember(Value):
    """A character, prop or place that looks the same in every image.

    Attributes:
        name: Name by which prompts refer to it.
        kind: What it is.
        traits: Visual facts that never change.
        images: Images that show it, the newest last.
    """

    name: str
    kind: MemberKind
    traits: tuple[str, ...]
    images: tuple[StoryImage, ...]


class StoryFile(SparseValue):
    """The complete file.

    Attributes:
        format: Identifies the file format.
        version: Increases when the meaning of a field changes.
        title: Beginning of the request.
        request: Text of the request.
        request_images: Images of the request.
        complete: Whether every step of the plan was completed.
        summary: Number of steps, images and accepted images, and the duration, in one line.
        steps: All steps of the plan in order.
        cast: The cast; absent without one.
    """

    omitted = ("cast",)

    format: Literal["interleave-thinker story"] = FORMAT
    version: int = VERSION
    title: str
    request: Text
    request_images: tuple[StoryImage, ...]
    complete: bool
    summary: str
    steps: tuple[StoryPart, ...]
    cast: tuple[StoryMember, ...] = ()


def export(trajectory: Trajectory, folder: Path) -> Path:
    """Write `folder`/story.json and its images folder, and return the file's path.

    Raises:
        JournalError: The folder cannot be written.
    """
    folder = Path(folder)
    pictures, clips = PictureFolder(folder), clips_of(trajectory)
    images = [
        _image(pictures, picture, f"request_{number}")
        for number, picture in enumerate(trajectory.request.images, start=1)
    ]
    steps = [
        _part(each, trajectory.settings, pictures, clips.get(each.step.number))
        for each in story_steps(trajectory)
    ]
    story = StoryFile(
        title=title_of(trajectory),
        request=trajectory.request.text,
        request_images=tuple(images),
        complete=all(step.state not in UNFINISHED for step in steps),
        summary=summarize(trajectory).sentence,
        steps=tuple(steps),
        cast=tuple(_member(pictures, *one) for one in enumerate(trajectory.plan.cast, start=1)),
    )
    return write_whole(folder / FILE_NAME, story.model_dump_json(indent=2).encode("utf-8"))


def _member(pictures: PictureFolder, number: int, member: CastMember) -> StoryMember:
    images = [
        _image(pictures, image.picture, f"cast_{number}_{place}")
        for place, image in enumerate(member.images, start=1)
        if image.picture
    ]
    return StoryMember(name=member.name, kind=member.kind, traits=tuple(member.traits), images=tuple(images))


def _part(each: StoryStep, settings: RunSettings, pictures: PictureFolder, clip: Clip | None) -> StoryPart:
    step, result = each.step, each.result
    attempts = () if result is None else result.attempts
    shown = tuple(
        StoryAttempt(
            prompt=attempt.prompt,
            seed=attempt.seed,
            image=attempt.image and _image(pictures, attempt.image, f"step_{step.number}_attempt_{number}"),
            outcome=outcome(attempt, settings),
            reasoning=attempt.verdict.reasoning if attempt.verdict else "",
            error=attempt.error.message if attempt.error else "",
        )
        for number, attempt in enumerate(attempts, start=1)
    )
    chosen = None if result is None or result.chosen is None else shown[result.chosen].image
    return StoryPart(
        number=step.number,
        name=step.name,
        text=step.auxiliary_text or "",
        prompt=step.prompt or "",
        image=chosen,
        state=_state(each),
        why="Not reached" if result is None else stop_sentence(result),
        attempts=shown,
        settings=step.settings.as_written,
        clip=clip and _clip(pictures, clip, f"step_{step.number}"),
    )


def _state(each: StoryStep) -> State:
    if each.result is None:
        return "not reached"
    if not each.step.prompt:
        return "text"
    reason = each.result.stop_reason
    if reason in (StopReason.error, StopReason.skipped):
        return "failed" if reason is StopReason.error else "skipped"
    return "not drawn" if each.result.chosen is None else ENDS.get(reason, "stopped")


def _clip(pictures: PictureFolder, clip: Clip, stem: str) -> StoryClip:
    width, height = clip.size
    file = pictures.add_movie(clip.movie, stem)
    return StoryClip(file=file, seconds=round(clip.seconds, 3), width=width, height=height)


def _image(pictures: PictureFolder, picture: Picture, stem: str) -> StoryImage:
    width, height = picture.image.size
    return StoryImage(file=pictures.add(picture, stem), width=width, height=height)


ZIP_FILE = "story.zip"


def export_zip(trajectory: Trajectory, folder: Path, metadata: Mapping[str, str] | None = None) -> Path:
    """Write `folder`/story.zip and return its path.

    Args:
        trajectory: A run, finished or not.
        folder: Folder to write into.
        metadata: JSON texts by name. The `workflow`, or else the `prompt`, is included.

    Raises:
        JournalError: The file cannot be written.
    """
    graph = (metadata or {}).get("workflow") or (metadata or {}).get("prompt")
    more = {WORKFLOW: graph.encode()} if graph else {}
    try:
        with tempfile.TemporaryDirectory(prefix="interleave-story-") as made:
            more[PAGE] = export_page(trajectory, Path(made)).read_bytes()
            run = save_trajectory(trajectory, Path(made) / "run")
            return pack_run(run, Path(folder) / ZIP_FILE, more)
    except OSError as error:
        raise JournalError(
            f"Cannot pack the story ({error.strerror or error}).", "Free disk space."
        ) from error
