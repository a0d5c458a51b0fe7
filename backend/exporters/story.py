"""`story.json`: a story as one plain file for programs, its pictures beside it.

Decision: it holds what a reader sees, in reading order, and how sure one may be of each picture; the record
(record.py) is the form that training reads. The models below are the format: their descriptions are the
documentation, and a new field raises no version, a changed one does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from ..pictures import Picture
from ..report.outcomes import (
    AttemptOutcome,
    StoryStep,
    outcome,
    stop_sentence,
    story_steps,
    summarize,
    title_of,
)
from ..types import RunSettings, Text, Trajectory, Value
from .layout.files import PictureFolder, write_whole

FILE_NAME = "story.json"
FORMAT = "interleave-thinker story"
VERSION = 1

State = Literal[
    "accepted",
    "picked",
    "not accepted",
    "not judged",
    "stopped",
    "text",
    "not drawn",
    "failed",
    "not reached",
]

UNFINISHED = ("stopped", "not drawn", "failed", "not reached")


class StoryImage(Value):
    """A picture of the story."""

    file: str = Field(description="path of a PNG file, relative to story.json")
    width: int = Field(description="pixels")
    height: int = Field(description="pixels")


class StoryAttempt(Value):
    """One draw of a step."""

    prompt: Text = Field(description="what it was drawn with")
    seed: int = Field(description="seed of the sampler")
    image: StoryImage | None = Field(description="null if drawing failed")
    outcome: AttemptOutcome = Field(description="accepted, refused, not understood, not judged or failed")
    reasoning: Text = Field(description="what the critic said of it")
    error: Text = Field(description="why drawing or judging failed, else empty")


class StoryPart(Value):
    """One step of the story."""

    number: int = Field(description="number of the step in the plan, rising")
    name: Text = Field(description="the planner's name for it")
    text: Text = Field(description="the sentence to show beside the picture, or a step of text")
    prompt: Text = Field(description="what the planner asked for; empty in a step of text")
    image: StoryImage | None = Field(description="the step's picture; null in a step of text or without one")
    state: State = Field(
        description="accepted by the critic, picked by a person, not accepted (shown all the same), "
        "not judged, stopped (cancelled or out of time after its first picture), text, not drawn (stopped "
        "before its first picture), failed (nothing could be drawn), not reached"
    )
    why: str = Field(description="the same in a sentence")
    attempts: tuple[StoryAttempt, ...] = Field(description="every draw in order, refused ones included")


class StoryFile(Value):
    """The whole file."""

    format: Literal["interleave-thinker story"] = Field(default=FORMAT, description="what file this is")
    version: int = Field(default=VERSION, description="raised when a field changes its meaning")
    title: str = Field(description="the beginning of the request")
    request: Text = Field(description="what was asked for")
    request_images: tuple[StoryImage, ...] = Field(description="the pictures that came with it")
    complete: bool = Field(description="every step of the plan was carried out to its end")
    summary: str = Field(description="steps, pictures, how many were accepted, and the time, in one line")
    steps: tuple[StoryPart, ...] = Field(description="all planned steps in order")


def export(trajectory: Trajectory, folder: Path) -> Path:
    """Write `folder`/story.json and its images folder; returns the file's path. Raises JournalError."""
    folder = Path(folder)
    pictures = PictureFolder(folder)
    images = tuple(
        _image(pictures, picture, f"request_{number}")
        for number, picture in enumerate(trajectory.request.images, start=1)
    )
    steps = tuple(_part(each, trajectory.settings, pictures) for each in story_steps(trajectory))
    story = StoryFile(
        title=title_of(trajectory),
        request=trajectory.request.text,
        request_images=images,
        complete=all(step.state not in UNFINISHED for step in steps),
        summary=summarize(trajectory).sentence,
        steps=steps,
    )
    path = folder / FILE_NAME
    write_whole(path, story.model_dump_json(indent=2).encode("utf-8"))
    return path


def _part(each: StoryStep, settings: RunSettings, pictures: PictureFolder) -> StoryPart:
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
    )


def _state(each: StoryStep) -> State:
    if each.result is None:
        return "not reached"
    if not each.step.prompt:
        return "text"
    reason = each.result.stop_reason.value
    if reason == "error":
        return "failed"
    if each.result.chosen is None:
        return "not drawn"
    states: dict[str, State] = {
        "accepted": "accepted",
        "picked": "picked",
        "redrawn": "not accepted",
        "unjudged": "not judged",
        "tries used up": "not accepted",
    }
    return states.get(reason, "stopped")


def _image(pictures: PictureFolder, picture: Picture, stem: str) -> StoryImage:
    width, height = picture.image.size
    return StoryImage(file=pictures.add(picture, stem), width=width, height=height)
