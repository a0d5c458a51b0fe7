"""Converts items of the CoMM dataset, in its public format, to trajectories for a planner.

The dataset shows and describes steps, but has no prompts for an image model. Its items therefore teach to
describe images and, with a teacher that writes a prompt for every image, to continue a story. They never
teach a whole plan, since no item has the reasoning that precedes one. An item with a missing image is left
out, since a step without its image would look like a text-only step. A step is represented by its first
image.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ....backend.errors import PictureError, SettingsError
from ....backend.feedback.sft_row import MARK
from ....backend.files.image_places import ImagePlaces
from ....backend.pictures import Picture
from ....backend.types import MAX_STEPS, Attempt, Plan, Request, Step, StepResult, StopReason, Trajectory
from ..decontamination.benchmarks import rows_of
from ..decontamination.checking import check_training_source
from ..decontamination.index import BenchmarkIndex
from ..pickled import ENDINGS

IMAGES_IN = ("images", "")
SUFFIXES = (*ENDINGS, ".json", ".jsonl")
KNOWN_FIRST = 100
"""Items whose ids are checked by the guard before any item is used."""
MAX_PART = 20_000
ASKED = (
    "Show step by step, with pictures and words: {title}",
    "{title}. Show every step in a picture, and tell what happens.",
    "Explain in pictures with a text each: {title}",
)
ASKED_STORY = (
    "Tell this story in pictures and words: {title}",
    "A picture story: {title}. Write what happens under every picture.",
)
NAMELESS = "a series of pictures that belong together"
_SPACES = re.compile(r"\s+")


class CommPart(BaseModel):
    """A text or an image of a step."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["text", "image"]
    content: str | None = Field(default=None, max_length=MAX_PART)
    image_path: str | None = Field(default=None, max_length=1000)


def _empty(value: Any) -> Any:
    return "" if value is None else str(value) if isinstance(value, int) else value


class CommItem(BaseModel):
    """An item of CoMM; other keys are ignored."""

    model_config = ConfigDict(extra="ignore")

    data_id: Annotated[str, BeforeValidator(_empty), Field(min_length=1, max_length=200)]
    dataset_type: Annotated[str, BeforeValidator(_empty)] = ""
    title: Annotated[str, BeforeValidator(_empty), Field(max_length=2000)] = ""
    step_info: list[Annotated[list[CommPart], Field(max_length=100)]] = Field(
        min_length=1, max_length=MAX_STEPS
    )


@dataclass(frozen=True)
class CommStory:
    """An item with its images; `steps` are (text or "", image or None)."""

    id: str
    title: str
    request: str
    steps: tuple[tuple[str, Picture | None], ...]

    @property
    def texts(self) -> list[str]:
        """Texts for the guard."""
        return [self.title, self.request, *(words for words, _ in self.steps if words)]

    @property
    def pictures(self) -> list[Picture]:
        """Images in order."""
        return [picture for _, picture in self.steps if picture is not None]

    def described(self) -> Trajectory | None:
        """Return a trajectory of the images with text, in order, or None if there are fewer than two."""
        shown = [(words, picture) for words, picture in self.steps if words and picture is not None]
        prompts = ["" for _ in shown]
        return _trajectory(self.request, shown, prompts) if len(shown) > 1 else None

    def with_prompts(self, prompts: Sequence[str]) -> Trajectory:
        """Return the whole story as a trajectory, with one prompt per image."""
        return _trajectory(self.request, self.steps, prompts)


def _trajectory(
    request: str, shown: Sequence[tuple[str, Picture | None]], prompts: Sequence[str]
) -> Trajectory:
    given, before = iter(prompts), None
    steps, results = [], []
    for number, (words, picture) in enumerate(shown, 1):
        prompt = next(given) or None if picture is not None else None
        step = Step(number=number, prompt=prompt, auxiliary_text=words or None)
        steps.append(step)
        if picture is None:
            results.append(StepResult(step=step, stop_reason=StopReason.text_only))
            continue
        attempt = Attempt(prompt=prompt or "", seed=0, source=before, image=picture)
        results.append(StepResult(step=step, attempts=(attempt,), chosen=0, stop_reason=StopReason.picked))
        before = picture
    plan = Plan(steps=tuple(steps))
    return Trajectory(request=Request(text=request), plan=plan, results=tuple(results))


@dataclass(frozen=True)
class CommFolder:
    """The downloaded dataset: `train_data.pth` (or JSON of it) next to a folder of images.

    `place` is the folder or the file.
    """

    place: Path

    def file(self) -> Path:
        """Return the file of training items.

        Raises:
            SettingsError: There is none, or there are several.
        """
        if not self.place.is_dir():
            return self.place
        found = [one for one in sorted(self.place.iterdir()) if one.suffix.lower() in SUFFIXES]
        train = [one for one in found if "train" in one.stem.lower()]
        if len(train) != 1:
            names = ", ".join(one.name for one in train) or "none"
            raise SettingsError(
                f"{str(self.place)!r} does not contain exactly one file of CoMM's training items (found: "
                f"{names}).",
                "Give the folder with its train_data.pth and images, or the file itself.",
            )
        return train[0]

    def items(self, guard: BenchmarkIndex | None, limit: int | None = None) -> Iterator[Any]:
        """Yield the items as they are in the file.

        Raises:
            SettingsError: The file cannot be read, or is the dataset's test file.
        """
        file = self.file()
        check_training_source(file, [], guard)
        items = islice(rows_of(file), limit)
        first = list(islice(items, KNOWN_FIRST))
        ids = [str(one.get("data_id")) for one in first if isinstance(one, dict)]
        check_training_source(file, ids, guard)
        yield from first
        yield from items

    def stories(self) -> CommStories:
        """Return a reader of items as stories."""
        folder = self.place if self.place.is_dir() else self.place.parent
        return CommStories(tuple(ImagePlaces(folder / name, SettingsError) for name in IMAGES_IN))


@dataclass(frozen=True)
class CommStories:
    """Reads items of CoMM and finds their images."""

    places: tuple[ImagePlaces, ...]

    def read(self, item: Any) -> CommStory | str:
        """Return the story of an item, or the reason why there is none."""
        try:
            found = CommItem.model_validate(item)
        except ValidationError:
            return "an item that is not in CoMM's format"
        try:
            steps = tuple(step for one in found.step_info if any(step := self._step(one)))
        except (PictureError, SettingsError):
            return "an item with an image that is missing or damaged"
        if not any(picture for _, picture in steps):
            return "an item without images"
        return CommStory(found.data_id, _clean(found.title), _request(found), steps)

    def _step(self, parts: Sequence[CommPart]) -> tuple[str, Picture | None]:
        words = " ".join(one.content for one in parts if one.type == "text" and one.content)
        named = [one.image_path for one in parts if one.type == "image" and one.image_path]
        return _clean(words), self._picture(named[0]) if named else None

    def _picture(self, name: str) -> Picture:
        for place in self.places:
            file = place.find(name)
            if file is not None:
                return Picture.open(file)
        raise PictureError(f"The image {name!r} does not exist.")


def _request(item: CommItem) -> str:
    wordings = ASKED_STORY if "story" in item.dataset_type.lower() else ASKED
    digest = hashlib.blake2b(item.data_id.encode("utf-8", "replace"), digest_size=4).digest()
    return wordings[digest[0] % len(wordings)].replace("{title}", _clean(item.title).rstrip(".") or NAMELESS)


def _clean(text: str) -> str:
    # Replace lone surrogates, which are not valid text.
    plain = text.encode("utf-8", "replace").decode()
    return _SPACES.sub(" ", plain.replace(MARK, "image")).strip()
