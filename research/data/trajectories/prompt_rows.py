"""Reads prompts for trajectories: rows `{"id", "user_input", "user_input_image"?}` of a JSONL file.

Prompt files come from others. A row that cannot be used is listed with line and reason, and the others are
used. Ids name folders, so they contain only plain characters. Images are only read from the file's folder or
a given image folder.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ....backend.core.errors import PictureError, SettingsError
from ....backend.core.files.image_places import ImagePlaces
from ....backend.core.pictures import Picture
from ....backend.core.prompts.prompt_set import ENDING
from ....backend.core.types import MAX_IMAGES, MAX_TEXT
from ....backend.story.loop.collaborators import CastOfPlan
from ....training.rows.values import RowProblem, read_values
from ..decontamination.guard import Guard, open_guard

MAX_NAME = 80
MAX_NAME_BYTES = 200
"""Maximum bytes of a folder's name after the id; file systems allow 255 for both."""


def _as_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _as_list(value: object) -> object:
    """Return the images of a row as a list; an empty text is left out."""
    several = value if isinstance(value, list | tuple) else [value]
    return [one for one in several if one not in (None, "")]


Short = Annotated[str, Field(max_length=200)]
Name = Annotated[str, Field(min_length=1, max_length=4096)]


class PromptRow(BaseModel):
    """A row of a prompt file; unknown keys are ignored. `user_input_image` may be one path or several."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    id: Annotated[str, BeforeValidator(_as_text), Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,47}$")]
    user_input: str = Field(min_length=1, max_length=MAX_TEXT)
    user_input_image: Annotated[tuple[Name, ...], BeforeValidator(_as_list)] = Field(
        default=(), max_length=MAX_IMAGES
    )
    category: Short = ""
    split: Short = ""

    @property
    def folder(self) -> str:
        """Name of its folder, by the published rule: the id, and the text without special characters."""
        # As in two of the three published scripts.
        text = self.user_input.replace(ENDING, "")
        name = re.sub(r"\s+", "_", re.sub(r"[^\w\s-]", "_", text))[:MAX_NAME]
        return f"{self.id}_{name.encode()[:MAX_NAME_BYTES].decode(errors='ignore')}"

    @property
    def digest(self) -> int:
        """64 bits of its id, which determine shard, generator and seed."""
        return int.from_bytes(hashlib.blake2b(self.id.encode(), digest_size=8).digest(), "big")


@dataclass(frozen=True)
class Prompt:
    """A row with its images.

    Attributes:
        row: The row.
        images: Its images.
        steps: Number of steps that its plan must have; 0 for any.
        cast: Gives the plan its cast.
    """

    row: PromptRow
    images: tuple[Path, ...] = ()
    steps: int = 0
    cast: CastOfPlan | None = None


@dataclass(frozen=True)
class Shard:
    """Part `number` (from 0) of `count` of all prompts, by a digest of their ids."""

    number: int = 0
    count: int = 1

    @classmethod
    def read(cls, text: str) -> Shard:
        """Parse `i/n`.

        Raises:
            SettingsError: The text is not a shard.
        """
        found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text.strip())
        number, count = (int(one) for one in found.groups()) if found else (1, 0)
        if number >= count:
            raise SettingsError(f"{text!r} is not a shard.", "Write i/n with i from 0 to n-1, such as 0/8.")
        return cls(number, count)

    def of(self, prompts: Sequence[Prompt]) -> list[Prompt]:
        """Return the prompts that belong to this shard."""
        return [prompt for prompt in prompts if prompt.row.digest % self.count == self.number]

    @property
    def suffix(self) -> str:
        """Suffix of the shard's files; empty with a single shard."""
        return f".{self.number}-of-{self.count}" if self.count > 1 else ""


@dataclass(frozen=True)
class PromptFile:
    """A prompt file, an additional folder of images, an index of benchmarks and a limit of prompts."""

    path: Path
    images: Path | None = None
    guard: Path | None = None
    limit: int | None = None

    def read(self) -> tuple[list[Prompt], list[RowProblem]]:
        """Read the prompts in order; those that are in a benchmark are left out.

        Returns:
            (prompts, problems of other rows).

        Raises:
            SettingsError: The file cannot be read or has no valid prompt.
        """
        places = ImagePlaces(self.path.parent, SettingsError, self.images)
        prompts: list[Prompt] = []
        problems: list[RowProblem] = []
        seen: set[str] = set()
        with open_guard(self.guard) as guard:
            for place, item in read_values(self.path):
                found = item if isinstance(item, RowProblem) else _prompt(place, item, places, seen, guard)
                if isinstance(found, RowProblem):
                    problems.append(found)
                    continue
                # On case-insensitive file systems equal ids would share a folder.
                seen.add(found.row.id.lower())
                prompts.append(found)
                if len(prompts) == self.limit:
                    break
        if not prompts:
            first = f" The first problem: {problems[0]}" if problems else ""
            hint = 'A line is {"id": "a1", "user_input": "..."}.'
            raise SettingsError(f"{str(self.path)!r} does not contain a valid prompt.{first}", hint)
        return prompts, problems


def _prompt(place: str, item: Any, places: ImagePlaces, seen: set[str], guard: Guard) -> Prompt | RowProblem:
    try:
        row = PromptRow.model_validate(item)
        row.user_input.encode()
    except ValidationError as error:
        return RowProblem.of(place, error)
    except UnicodeEncodeError:
        return RowProblem(place, "user_input", "it is not valid text")
    if not row.user_input.strip():
        return RowProblem(place, "user_input", "it is empty")
    if row.id.lower() in seen:
        return RowProblem(place, "id", f"duplicate id {row.id!r}")
    images: list[Path] = []
    for name in row.user_input_image:
        try:
            file = places.find(name)
        except SettingsError as error:
            return RowProblem(place, "user_input_image", error.message)
        if file is None:
            return RowProblem(place, "user_input_image", f"{name!r} was not found (set --images)")
        images.append(file)
    try:
        found = guard.index and guard.finds(row.id, [row.user_input], map(Picture.open, images), [row.id])
    except PictureError as error:
        return RowProblem(place, "user_input_image", error.message)
    return RowProblem(row.id, "guard", f"it is in {found}") if found else Prompt(row, tuple(images))
