"""Items of the CoMM dataset, in its public format, as trajectories for a planner.

The dataset shows and describes steps, but has no prompts for an image model. Its items therefore teach to
describe images and, with a teacher that writes a prompt for every image, to continue a story. An item with a
missing image is left out, since a step without its image would look like a text-only step. A step is
represented by its first image.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ....backend.answers.reply_text import spoken
from ....backend.chat.protocol import ReplySettings
from ....backend.errors import PictureError, SettingsError
from ....backend.feedback.sft_row import MARK
from ....backend.files.image_places import ImagePlaces
from ....backend.pictures import Picture
from ....backend.types import MAX_STEPS, Attempt, Plan, Request, Step, StepResult, StopReason, Trajectory
from ..decontamination.data_files import TORCH_FILES, rows_of
from ..decontamination.guard import Guard, check_training_source
from ..from_runs.scoring import in_threads
from .teacher import Teacher

SUFFIXES = (*TORCH_FILES, ".json", ".jsonl")
KNOWN_FIRST = 100
"""Items whose ids are checked by the guard before any item is used."""
AT_A_TIME = 64
"""Number of stories whose images are in memory."""
NOT_IN_PROMPTS = re.compile(r"\bstep\s*\d+\s*:|\(\s*\d+\s*\)|\bprevious (?:image|picture)\b", re.IGNORECASE)
"""References that an image model cannot understand: step numbers and other images."""
MAX_PROMPT_LENGTH = 1200
SETTINGS = ReplySettings(max_tokens=600, temperature=0.0)
FIRST = (
    "An image model is to draw this picture from words alone. Write the prompt for it: what is to be seen, "
    "where, in what style and light. Answer with the prompt alone, in one paragraph."
)
NEXT = (
    "An image model is to turn the first picture into the second. Write the prompt for it: what changes, "
    'what is added or goes, and how it looks. Do not say "first", "second" or "previous picture": the model '
    "sees the first one alone. Answer with the prompt alone, in one paragraph."
)
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


class CommPart(BaseModel):
    """A text or an image of a step."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["text", "image"]
    content: str | None = Field(default=None, max_length=20_000)
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

    @property
    def request(self) -> str:
        """A request that the item answers."""
        wordings = ASKED_STORY if "story" in self.dataset_type.lower() else ASKED
        digest = hashlib.blake2b(self.data_id.encode("utf-8", "replace"), digest_size=4).digest()
        title = _clean(self.title).rstrip(".") or NAMELESS
        return wordings[digest[0] % len(wordings)].replace("{title}", title)


@dataclass(frozen=True)
class CommStory:
    """An item with its images; `steps` are (text or "", image or None)."""

    item: CommItem
    steps: tuple[tuple[str, Picture | None], ...]

    def with_prompts(self, prompts: Sequence[str] | None) -> Trajectory | None:
        """Return the story as a trajectory, with one prompt per image.

        Without prompts it has only the images with a text, and there is none with fewer than two.
        """
        shown = self.steps
        if prompts is None:
            shown = tuple((words, picture) for words, picture in shown if words and picture is not None)
            if len(shown) < 2:
                return None
        given, before, results = iter(prompts or ()), None, []
        for number, (words, picture) in enumerate(shown, 1):
            prompt = next(given, None) if picture is not None else None
            step = Step(number=number, prompt=prompt, auxiliary_text=words or None)
            attempts = ()
            if picture is not None:
                attempts = (Attempt(prompt=prompt or "", seed=0, source=before, image=picture),)
                before = picture
            chosen, reason = (0, StopReason.picked) if attempts else (None, StopReason.text_only)
            results.append(StepResult(step=step, attempts=attempts, chosen=chosen, stop_reason=reason))
        plan = Plan(steps=tuple(result.step for result in results))
        return Trajectory(request=Request(text=self.item.request), plan=plan, results=tuple(results))


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

    def stories(self, guard: Guard, limit: int | None, left_out: Counter[str]) -> Iterator[CommStory]:
        """Yield the items with their images that are in no benchmark; `left_out` counts the others.

        Raises:
            SettingsError: The file cannot be read, or is the dataset's test file.
        """
        file = self.file()
        check_training_source(file, [])
        rows = islice(rows_of(file), limit)
        first = list(islice(rows, KNOWN_FIRST))
        ids = [str(one.get("data_id")) for one in first if isinstance(one, dict)]
        check_training_source(file, ids, guard.index)
        places = ImagePlaces(file.parent, SettingsError, beside=("images", ""))
        for row in (row for part in (first, rows) for row in part):
            try:
                item = CommItem.model_validate(row)
                steps = [step for one in item.step_info if any(step := _step(one, places))]
            except ValidationError:
                left_out["an item that is not in CoMM's format"] += 1
                continue
            except (PictureError, SettingsError):
                left_out["an item with an image that is missing or damaged"] += 1
                continue
            pictures = [picture for _, picture in steps if picture is not None]
            texts = [_clean(item.title), item.request, *(words for words, _ in steps if words)]
            if not pictures:
                left_out["an item without images"] += 1
            elif found := guard.finds(item.data_id, texts, pictures, [item.data_id]):
                left_out[f"in a benchmark: {found}"] += 1
            else:
                yield CommStory(item, tuple(steps))


def _step(parts: Sequence[CommPart], places: ImagePlaces) -> tuple[str, Picture | None]:
    words = " ".join(one.content for one in parts if one.type == "text" and one.content)
    named = [one.image_path for one in parts if one.type == "image" and one.image_path]
    if not named:
        return _clean(words), None
    file = places.find(f"images/{named[0]}") or places.find(named[0])
    if file is None:
        raise PictureError(f"The image {named[0]!r} does not exist.")
    return _clean(words), Picture.open(file)


def _clean(text: str) -> str:
    # Replace lone surrogates, which are not valid text.
    plain = text.encode("utf-8", "replace").decode()
    return " ".join(plain.replace(MARK, "image").split())


def comm_stories(
    folder: CommFolder,
    limit: int | None,
    guard: Guard,
    teacher: Teacher | None,
    parallel: int,
    left_out: Counter[str],
) -> Iterator[tuple[str, Trajectory]]:
    """Yield (id, trajectory) of the usable items; `left_out` counts the others by reason.

    Raises:
        SettingsError: The file cannot be read, or is the dataset's test file.
        ChatError: The teacher is unavailable.
    """
    stories = folder.stories(guard, limit, left_out)
    while some := list(islice(stories, AT_A_TIME)):
        prompts = in_threads(lambda story: _prompts_of(story, teacher), some, parallel)
        for story, found in zip(some, prompts, strict=True):
            if isinstance(found, str):
                left_out[found] += 1
                continue
            trajectory = story.with_prompts(found)
            if trajectory is None:
                left_out["an item with fewer than two images that have texts"] += 1
            else:
                yield story.item.data_id, trajectory


def _prompts_of(story: CommStory, teacher: Teacher | None) -> list[str] | str | None:
    """Return a teacher's prompt for each image, the reason why there are none, or None without a teacher.

    The teacher sees the previous image, the image and the text of the step.
    """
    if teacher is None:
        return None
    prompts: list[str] = []
    before: Picture | None = None
    for words, picture in story.steps:
        if picture is None:
            continue
        said = f"\nIts words: {words}" if words else ""
        asked = (before, picture, NEXT + said) if before is not None else (picture, FIRST + said)
        prompt = teacher.answer(asked, SETTINGS, lambda reply: spoken(reply.whole)[: MAX_PROMPT_LENGTH + 1])
        if prompt is None:
            return "a story for which the teacher gave no answer"
        if not 0 < len(prompt) <= MAX_PROMPT_LENGTH or NOT_IN_PROMPTS.search(prompt):
            return "a story with a prompt that no image model can follow"
        prompts.append(prompt)
        before = picture
    return prompts
