"""The prompts that trajectories are made of: rows `{"id", "user_input", "user_input_image"?}` of a JSONL
file, ours or published.

Decision: a prompt file is a stranger's. A row that cannot be used is listed with its line and reason and the
others are carried out; ids name folders, so they hold nothing but plain characters, and images lie below the
file's folder or a named image folder and nowhere else.
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
from ....backend.prompts.published import ENDING
from ....backend.types import MAX_IMAGES, MAX_TEXT
from ..rows.values import RowProblem, read_values

MAX_NAME = 80
MAX_NAME_BYTES = 200
"""Of a folder's name after the id: a file system takes 255 bytes for both."""


def _as_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _as_list(value: object) -> object:
    """The images of a row as a list; an empty text is none."""
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
        """The name of its folder, by the published rule: the id and what its text leaves of a name."""
        # As two of the three published scripts do.
        text = self.user_input.replace(ENDING, "")
        name = re.sub(r"\s+", "_", re.sub(r"[^\w\s-]", "_", text))[:MAX_NAME]
        return f"{self.id}_{name.encode()[:MAX_NAME_BYTES].decode(errors='ignore')}"

    @property
    def digest(self) -> int:
        """64 bits of its id: which shard, generator and seed it gets, in any company."""
        return int.from_bytes(hashlib.blake2b(self.id.encode(), digest_size=8).digest(), "big")


@dataclass(frozen=True)
class Prompt:
    """A row with its images found; `steps`: how many its plan must have, 0 leaves it to the planner."""

    row: PromptRow
    images: tuple[Path, ...] = ()
    steps: int = 0


@dataclass(frozen=True)
class Shard:
    """Part `number` (from 0) of `count` of all prompts, by digest of their ids."""

    number: int = 0
    count: int = 1

    @classmethod
    def read(cls, text: str) -> Shard:
        """`i/n`; raises SettingsError."""
        found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text.strip())
        number, count = (int(one) for one in found.groups()) if found else (1, 0)
        if number >= count:
            raise SettingsError(f"{text!r} is no shard.", "Write i/n with i from 0 to n-1, such as 0/8.")
        return cls(number, count)

    def has(self, row: PromptRow) -> bool:
        return row.digest % self.count == self.number

    @property
    def suffix(self) -> str:
        """What the files of a shard have in their names; empty where there is one."""
        return f".{self.number}-of-{self.count}" if self.count > 1 else ""


def read_prompts(path: Path, images: Path | None = None) -> tuple[list[Prompt], list[RowProblem]]:
    """The prompts of a file in their order, and what is wrong with other rows; `images` is where images are
    looked for besides. Raises SettingsError for a file that cannot be read or holds no prompt."""
    places = ImagePlaces(path.parent, SettingsError, images)
    prompts: list[Prompt] = []
    problems: list[RowProblem] = []
    seen: set[str] = set()
    for place, item in read_values(path):
        row = item if isinstance(item, RowProblem) else _row(place, item)
        if isinstance(row, PromptRow):
            # File systems that know no case would make them one folder.
            row = (
                row if row.id.lower() not in seen else RowProblem(place, "id", f"{row.id!r} was there before")
            )
        found = row if isinstance(row, RowProblem) else _with_images(place, row, places)
        if isinstance(found, RowProblem):
            problems.append(found)
        else:
            seen.add(found.row.id.lower())
            prompts.append(found)
    if not prompts:
        first = f" The first: {problems[0]}" if problems else ""
        raise SettingsError(
            f"{str(path)!r} holds no prompt.{first}", 'A line is {"id": "a1", "user_input": "..."}.'
        )
    return prompts, problems


def _row(place: str, item: Any) -> PromptRow | RowProblem:
    try:
        row = PromptRow.model_validate(item)
        row.user_input.encode()
    except ValidationError as error:
        return RowProblem.of(place, error)
    except UnicodeEncodeError:
        return RowProblem(place, "user_input", "is not valid text")
    return row if row.user_input.strip() else RowProblem(place, "user_input", "is empty")


def _with_images(place: str, row: PromptRow, places: ImagePlaces) -> Prompt | RowProblem:
    found: list[Path] = []
    for name in row.user_input_image:
        try:
            file = places.find(name)
        except SettingsError as error:
            return RowProblem(place, "user_input_image", error.message)
        if file is None:
            return RowProblem(place, "user_input_image", f"there is no {name!r} (another folder: --images)")
        found.append(file)
    return Prompt(row, tuple(found))


def of_shard(prompts: Sequence[Prompt], shard: Shard, limit: int | None) -> list[Prompt]:
    """The shard's part of the first `limit` prompts."""
    return [prompt for prompt in prompts[:limit] if shard.has(prompt.row)]
