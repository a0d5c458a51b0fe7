"""Rows of `planner_rl.jsonl` (docs/reference/file-formats.md): a request and the criteria for its plan.

The criteria are stored in the row, so that every plan for a request is judged by the same ones in all
trainings. A checklist is for a judge; a reference plan is for a world that can be simulated. The prompt is
built by the same function as in the running planner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StringConstraints, field_validator, model_validator

from ....backend.agents.planner_question import planner_message
from ....backend.chat.image_limits import MAX_PIXELS
from ....backend.errors import SettingsError
from ....backend.pictures import Picture
from ....backend.prompts import PromptSet
from ....backend.types import MAX_IMAGES, MAX_STEPS, Request, Step, Text, Value
from .lengths import ShownRow
from .rl import RlRow, as_conversation, read_rl_lines, shown_path, write_rl_lines
from .values import RowProblem

MAX_ITEMS = 64
Item = Annotated[str, StringConstraints(min_length=1, max_length=2000, strip_whitespace=True)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=4096)]


class StepRange(Value):
    """Allowed number of steps of a plan."""

    least: int = Field(ge=1, le=MAX_STEPS)
    most: int = Field(ge=1, le=MAX_STEPS)

    @model_validator(mode="after")
    def _in_order(self) -> StepRange:
        if self.least > self.most:
            raise ValueError(f"least {self.least} is above most {self.most}")
        return self


class PlannerRlRow(RlRow):
    """A request with the criteria for its plan.

    Attributes:
        request: Text of the request.
        images: Paths of its images.
        checklist: Statements that a judge checks.
        reference: Steps of a right plan, in a world that can be simulated.
        steps: Requested number of steps, or None.
        judge: Model that wrote the checklist.
        id: Identifies the request.
    """

    stage = "planner-grpo"
    request: Text = Field(min_length=1)
    images: list[Name] = Field(default=[], max_length=MAX_IMAGES)
    checklist: list[Item] = Field(default=[], max_length=MAX_ITEMS)
    reference: list[Step] = Field(default=[], max_length=MAX_STEPS)
    steps: StepRange | None = None
    judge: str | None = Field(default=None, max_length=2000)
    id: str | None = Field(default=None, max_length=500)

    @field_validator("images", "checklist", "reference", mode="before")
    @classmethod
    def _null_is_nothing(cls, value: Any) -> Any:
        return [] if value in (None, "") else value

    @model_validator(mode="after")
    def _can_be_judged(self) -> PlannerRlRow:
        if not self.checklist and not self.reference:
            raise ValueError("the row has neither a checklist nor a reference")
        return self

    @property
    def image_paths(self) -> Mapping[str, str]:
        """Image paths by field."""
        return {f"images.{number}": name for number, name in enumerate(self.images)}

    def with_paths(self, paths: Mapping[str, str]) -> PlannerRlRow:
        """Return the row with these paths."""
        return self.model_copy(update={"images": list(paths.values())})

    def pictures(self, folder: Path) -> tuple[Picture, ...]:
        """Return the request's images; raises PictureError if one cannot be read."""
        return tuple(Picture.open(folder / name) for name in self.images)


def read_planner_rl(
    path: Path, skip_bad: bool = False, images: Path | None = None
) -> tuple[list[PlannerRlRow], list[RowProblem]]:
    """Return (rows of a file, problems of the other rows), as `read_rl_lines`.

    A request must have one `<image>` mark per image.
    """
    return read_rl_lines(path, PlannerRlRow, skip_bad, images)


def write_planner_rl(path: Path, rows: Sequence[PlannerRlRow]) -> None:
    """Write a data file, one row per line.

    Raises:
        SettingsError: The file cannot be written.
    """
    write_rl_lines(path, rows)


def _message(row: PlannerRlRow, prompt_set: PromptSet, pictures: tuple[Picture, ...]) -> Any:
    try:
        return planner_message(prompt_set, Request(text=row.request, images=pictures))
    except SettingsError as error:
        raise SettingsError(f"{row.place or 'A row'}, request: {error.message}", error.hint) from error


def planner_question(
    row: PlannerRlRow, folder: Path, shown: Path, prompt_set: PromptSet, pixels: int = MAX_PIXELS
) -> dict[str, Any]:
    """Return a row in the format of trl's GRPO trainer.

    The keys are `prompt` (a conversation), `images` (paths) and `row` (its JSON, with absolute paths).
    `shown` is a folder for images that are scaled down.
    """
    pictures = row.pictures(folder)
    message = _message(row, prompt_set, pictures)
    paths = [
        shown_path(picture, folder / name, shown, pixels)
        for picture, name in zip(pictures, row.images, strict=True)
    ]
    return {"prompt": as_conversation(message), "images": paths, "row": row.moved(folder).line()}


def planner_shown(
    row: PlannerRlRow, folder: Path, prompt_set: PromptSet, pixels: int = MAX_PIXELS
) -> ShownRow:
    """Return a row as it is measured, without opening its images."""
    blanks = tuple(Picture.white((1, 1)) for _ in row.images)
    message = _message(row, prompt_set, blanks)
    return ShownRow(
        place=row.place,
        texts={"request": row.request},
        images=[(field, folder / name) for field, name in row.image_paths.items()],
        text="".join(part for part in message.content if isinstance(part, str)),
        turns=1,
        area=min(pixels, MAX_PIXELS),
        conversation=lambda: as_conversation(message),
    )
