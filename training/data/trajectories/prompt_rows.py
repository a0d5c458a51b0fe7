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

from ....backend.errors import SettingsError
from ....backend.files.image_places import ImagePlaces
from ....backend.loop.collaborators import CastOfPlan
from ....backend.prompts.published import ENDING
from ....backend.types import MAX_IMAGES, MAX_TEXT
from ..rows.values import RowProblem, read_values

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


class PromptRow(BaseModel):
    """A row of a prompt file; unknown keys are ignored. `user_input_image` may be one path or several."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    id: Annotated[str, BeforeValidator(_as_text), Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,47}$")]
    user_input: str = Field(min_length=1, max_length=MAX_TEXT)
    user_input_image: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=4096)], ...], BeforeValidator(_as_list)
    ] = Field(default=(), max_length=MAX_IMAGES)
    category: Short = ""
    subcategory: Short = ""
    split: Short = ""
    language: Short = ""

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
        steps: Number of steps that its plan must have; 0 for any.
        cast: Gives the plan its cast; can be pickled.
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

    def has(self, row: PromptRow) -> bool:
        """Return whether the row belongs to this shard."""
        return row.digest % self.count == self.number

    @property
    def suffix(self) -> str:
        """Suffix of the shard's files; empty with a single shard."""
        return f".{self.number}-of-{self.count}" if self.count > 1 else ""


def read_prompts(path: Path, images: Path | None = None) -> tuple[list[Prompt], list[RowProblem]]:
    """Read the prompts of a file in order; `images` is an additional folder of images.

    Returns:
        (prompts, problems of other rows).

    Raises:
        SettingsError: The file cannot be read or has no valid prompt.
    """
    places = ImagePlaces(path.parent, SettingsError, images)
    prompts: list[Prompt] = []
    problems: list[RowProblem] = []
    seen: set[str] = set()
    for place, item in read_values(path):
        row = item if isinstance(item, RowProblem) else _row(place, item)
        if isinstance(row, PromptRow):
            # On case-insensitive file systems they would share a folder.
            row = row if row.id.lower() not in seen else RowProblem(place, "id", f"duplicate id {row.id!r}")
        found = row if isinstance(row, RowProblem) else _with_images(place, row, places)
        if isinstance(found, RowProblem):
            problems.append(found)
        else:
            seen.add(found.row.id.lower())
            prompts.append(found)
    if not prompts:
        first = f" The first problem: {problems[0]}" if problems else ""
        raise SettingsError(
            f"{str(path)!r} does not contain a valid prompt.{first}",
            'A line is {"id": "a1", "user_input": "..."}.',
        )
    return prompts, problems


def _row(place: str, item: Any) -> PromptRow | RowProblem:
    try:
        row = PromptRow.model_validate(item)
        row.user_input.encode()
    except ValidationError as error:
        return RowProblem.of(place, error)
    except UnicodeEncodeError:
        return RowProblem(place, "user_input", "it is not valid text")
    return row if row.user_input.strip() else RowProblem(place, "user_input", "it is empty")


def _with_images(place: str, row: PromptRow, places: ImagePlaces) -> Prompt | RowProblem:
    found: list[Path] = []
    for name in row.user_input_image:
        try:
            file = places.find(name)
        except SettingsError as error:
            return RowProblem(place, "user_input_image", error.message)
        if file is None:
            reason = f"{name!r} was not found (set another folder with --images)"
            return RowProblem(place, "user_input_image", reason)
        found.append(file)
    return Prompt(row, tuple(found))


def of_shard(prompts: Sequence[Prompt], shard: Shard, limit: int | None) -> list[Prompt]:
    """Return the shard's part of the first `limit` prompts."""
    return [prompt for prompt in prompts[:limit] if shard.has(prompt.row)]
