"""Rows of `critic_rl.jsonl` (docs/reference/file-formats.md), and their questions for the critic.

The question is built by the same function as in the running critic, so that training matches use. It shows a
row's `rewritten_prompt` as is: published rows have an empty one before the first redraw, as in the published
trainer. A row without a source image is shown a plain white one of the same size, as in use. A white source
image is the published sign for "generated from text" and counts as none, so that the row is redrawn from
text. The seed of a row's redraws is derived from its content: answers of a group differ only by their refined
prompts, and the order of rows does not
matter.

Rows of `planner_rl.jsonl` have a request and the criteria for its plan. The criteria are stored in the row,
so that every plan for a request is judged by the same ones in all trainings. A checklist is for a judge; a
reference plan is for a world that can be simulated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from ...backend.core.errors import SettingsError, TrainingError
from ...backend.core.files.atomic import write_bytes, write_text
from ...backend.core.pictures import Picture
from ...backend.core.prompts.prompt_set import PromptSet
from ...backend.core.seams.chat_model import MAX_PIXELS, Message, scaled_down
from ...backend.core.types import MAX_IMAGES, MAX_STEPS, Request, Score, Step, Text, Value
from ...backend.story.agents.critic import critic_message
from ...backend.story.agents.planner import planner_message
from ...backend.story.loop.policy import hashed_seed
from .lengths import ShownRow
from .values import RowProblem, parsed_rows, usable_rows

MAX_ITEMS = 64
Item = Annotated[str, StringConstraints(min_length=1, max_length=2000, strip_whitespace=True)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=4096)]
MAX_SEED = 2**31
MAX_ROW_SEED = 2**64 - 1
"""Largest seed that the generators' libraries accept; with a larger seed of a row every redraw would fail."""


WHITE_PAGE = re.compile(r"(?:^|[/\\])data[/\\]interleave[/\\]white\.png$")
"""Published path of the source image of images generated from text; the published data does not contain it.
"""
WHITE = "images/data/interleave/white.png"
"""Path of the white source image in data written here, relative to the data file's folder.

The published trainer requires a source image and recognizes images generated from text by the end of this
path.
"""
WHITE_SIDE = 1024


class RlRow(BaseModel):
    """A row of GRPO training. Unknown keys are ignored."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    stage: ClassVar[str]
    """Command of `train` that uses such rows."""
    _place: str = PrivateAttr("")

    def __eq__(self, other: object) -> bool:
        """Compare the content, regardless of where it was read."""
        return type(other) is type(self) and self.__dict__ == other.__dict__

    @property
    def place(self) -> str:
        """Where the row was read, such as "line 3"; empty if it was created in memory."""
        return self._place

    def at(self: Row, place: str) -> Row:
        """Set the place where the row was read, which copies keep and files lack; returns the row."""
        self._place = place
        return self

    @property
    def image_paths(self) -> Mapping[str, str]:
        """Image paths by their field in messages, without an entry for a missing image."""
        raise NotImplementedError

    def with_paths(self: Row, paths: Mapping[str, str]) -> Row:
        """Return the row with these paths instead of `image_paths`."""
        return self.model_copy(update=dict(paths))

    @property
    def texts(self) -> Mapping[str, str]:
        """Texts of the row by field."""
        raise NotImplementedError

    def message(self, prompt_set: PromptSet, pictures: Sequence[Picture]) -> Message:
        """Return the question of the row to its agent, with these images.

        Raises:
            SettingsError: The row cannot be used.
        """
        raise NotImplementedError

    def measured(self, folder: Path) -> list[tuple[str, Path]]:
        """Return the field and the path of each image of the question, for its size."""
        return [(field, folder / name) for field, name in self.image_paths.items()]

    def pictures(self, folder: Path) -> list[tuple[Picture, Path | None]]:
        """Return the images of the question, and their paths (None: there is no file).

        Raises:
            PictureError: An image cannot be read.
        """
        return [(Picture.open(path), path) for _, path in self.measured(folder)]

    def shown(self, folder: Path, prompt_set: PromptSet, pixels: int = MAX_PIXELS) -> ShownRow:
        """Return the row as it is measured, without opening its images.

        Raises:
            SettingsError: The row cannot be used.
        """
        images = self.measured(folder)
        message = self.message(prompt_set, [Picture.white((1, 1)) for _ in images])
        return ShownRow(
            place=self.place,
            texts=self.texts,
            images=images,
            text="".join(part for part in message.content if isinstance(part, str)),
            turns=1,
            area=min(pixels, MAX_PIXELS),
            conversation=lambda: as_conversation(message),
        )

    def question(
        self, folder: Path, shown: Path, prompt_set: PromptSet, pixels: int = MAX_PIXELS
    ) -> dict[str, Any]:
        """Return the row in the format of trl's GRPO trainer.

        The keys are `prompt` (a conversation), `images` (paths) and `row` (its JSON). `shown` is a folder for
        copies of images that are scaled down, and for white images that replace a missing one.
        """
        pictures = self.pictures(folder)
        message = self.message(prompt_set, [picture for picture, _ in pictures])
        paths = [shown_path(picture, path, shown, pixels) for picture, path in pictures]
        return {"prompt": as_conversation(message), "images": paths, "row": self.line()}

    def content(self) -> str:
        """Return the text that identifies the row when a training is resumed."""
        return self.line()

    def moved(self: Row, folder: Path) -> Row:
        """Return the row with image paths made absolute from `folder`."""
        paths = {field: str((folder / name).resolve()) for field, name in self.image_paths.items()}
        return self.with_paths(paths)

    def line(self) -> str:
        """Return the row as one line of JSON."""
        return self.model_dump_json(exclude_none=True)


Row = TypeVar("Row", bound=RlRow)


def read_rl_lines(
    path: Path, kind: type[Row], skip_bad: bool = False, images: Path | None = None
) -> tuple[list[Row], list[RowProblem]]:
    """Read a data file of GRPO rows of a kind, and open every image once; see `usable_rows`."""

    def parse(place: str, item: Any) -> Row | RowProblem:
        try:
            return kind.model_validate(item).at(place)
        except ValidationError as error:
            return RowProblem.of(place, error)

    parsed = parsed_rows(path, parse, kind.stage)
    return usable_rows(path, parsed, lambda row: row.image_paths, kind.with_paths, skip_bad, images)


def write_rl_lines(path: Path, rows: Sequence[RlRow]) -> None:
    """Write a data file, one row per line.

    Raises:
        SettingsError: The file cannot be written.
    """
    write_text(path, "\n".join(row.line() for row in rows) + "\n", SettingsError, "Data file")


class Evaluation(BaseModel):
    """A judge's evaluation of the edited image."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    success: bool = Field(strict=True)
    semantics: float | None = Field(default=None, ge=0, le=10)
    quality: float | None = Field(default=None, ge=0, le=10)

    @property
    def score(self) -> Score | None:
        """Semantics and quality, 0 to 10 each; None if one of them is missing."""
        if self.semantics is None or self.quality is None:
            return None
        return Score(semantics=self.semantics, quality=self.quality)


class CriticRlRow(RlRow):
    """A judged image with its source image, original prompt and the prompt it was generated with."""

    stage = "critic-grpo"
    origin_prompt: Text = Field(min_length=1)
    rewritten_prompt: Text = ""
    origin_image_path: str | None = Field(default=None, max_length=4096)
    edited_image_path: str = Field(min_length=1, max_length=4096)
    evaluation: Evaluation
    generator: str | None = None
    seed: int | None = Field(default=None, ge=0, le=MAX_ROW_SEED)
    judge: str | None = None
    raw_scores: Any = None

    @field_validator("rewritten_prompt", mode="before")
    @classmethod
    def _null_is_empty(cls, value: Any) -> Any:
        return "" if value is None else value

    @field_validator("origin_image_path", mode="after")
    @classmethod
    def _none_is_none(cls, value: str | None) -> str | None:
        return None if not value or WHITE_PAGE.search(value) else value

    @property
    def image_paths(self) -> dict[str, str]:
        """Image paths by field, without an entry for a missing source image."""
        before = {"origin_image_path": self.origin_image_path} if self.origin_image_path else {}
        return before | {"edited_image_path": self.edited_image_path}

    @property
    def texts(self) -> dict[str, str]:
        """Both prompts by field."""
        return {"origin_prompt": self.origin_prompt, "rewritten_prompt": self.rewritten_prompt}

    def message(self, prompt_set: PromptSet, pictures: Sequence[Picture]) -> Message:
        """Return the question to the critic."""
        before, after = pictures
        return critic_message(prompt_set, (before, after), self.origin_prompt, self.rewritten_prompt)

    def measured(self, folder: Path) -> list[tuple[str, Path]]:
        """Return both images; a missing source image counts with the size of the edited one."""
        images = super().measured(folder)
        return images if len(images) == 2 else images * 2

    def pictures(self, folder: Path) -> list[tuple[Picture, Path | None]]:
        """Return the source image, which is white if there is none, and the edited image."""
        edited, before = folder / self.edited_image_path, before_of(self, folder)
        after = Picture.open(edited)
        if before is None or self.origin_image_path is None:
            return [(Picture.white(after.size), None), (after, edited)]
        return [(before, folder / self.origin_image_path), (after, edited)]

    def content(self) -> str:
        """Return the row as JSON, as in the records of all earlier trainings."""
        return self.model_dump_json()

    @property
    def prompt_used(self) -> str:
        """Prompt that the edited image was generated with. The question shows `rewritten_prompt` instead."""
        return self.rewritten_prompt or self.origin_prompt


def read_rl_rows(
    path: Path, skip_bad: bool = False, images: Path | None = None
) -> tuple[list[CriticRlRow], list[RowProblem]]:
    """Read a data file, and open every image once.

    Image paths stay relative to the file. Images that were found in `images` by the end of their path get
    absolute ones.

    Returns:
        (rows, problems of the other rows).

    Raises:
        SettingsError: A row is invalid and `skip_bad` is false (it names line, field and reason), or the
            scores have another scale.
    """
    rows, problems = read_rl_lines(path, CriticRlRow, skip_bad, images)
    _check_scale(path, rows)
    return rows, problems


def _check_scale(path: Path, rows: Sequence[CriticRlRow]) -> None:
    """Raise SettingsError if all scores are between 0 and 1.

    Scores of only 0 and 1 are accepted if no image is right: they may be bad images on the scale of 0 to 10.
    """
    scores = [
        value for row in rows if (one := row.evaluation.score) for value in (one.semantics, one.quality)
    ]
    if not scores or max(scores) > 1:
        return
    if any(0 < score < 1 for score in scores) or any(row.evaluation.success for row in rows):
        reason = f"The scores in {str(path)!r} are between 0 and 1, but must be on a scale of 0 to 10."
        raise SettingsError(reason, "Multiply both by 10 in every row.")


def write_rl_rows(path: Path, rows: Sequence[CriticRlRow]) -> None:
    """Write a data file, one row per line, and the white source image of rows generated from text.

    Raises:
        SettingsError: The files cannot be written.
    """
    from_text = {"origin_image_path": WHITE}
    if any(row.origin_image_path is None for row in rows):
        page = Picture.white((WHITE_SIDE, WHITE_SIDE))
        write_bytes(path.parent / WHITE, page.png(), SettingsError, "Image")
    write_rl_lines(path, [row if row.origin_image_path else row.with_paths(from_text) for row in rows])


def other_sources(rows: Sequence[CriticRlRow], generator: str, judge: str) -> list[str]:
    """Return warnings about rows that were generated or scored by other models than the current ones.

    A step reward is the difference of two scores, which means little if their scales differ.
    """
    warnings = []
    for what, who, now in (
        ("were generated", [row.generator for row in rows], generator),
        ("were scored", [row.judge for row in rows], judge),
    ):
        others = sorted({one for one in who if one and one != now})
        if others:
            number = sum(one in others for one in who)
            warnings.append(
                f"WARNING: {number} of {len(rows)} rows {what} by {', '.join(map(repr, others[:3]))}, "
                f"not by {now!r}."
            )
    return warnings


def row_redraw_seed(row: CriticRlRow, draw: int, base: int) -> int:
    """Return the seed of a row's redraw number `draw`, from its content and the training's seed `base`."""
    text = f"{base}\0{draw}\0{row.origin_prompt}\0{row.prompt_used}\0{_place_apart(row.edited_image_path)}"
    return hashed_seed(text, bits=64) % MAX_SEED


def _place_apart(name: str) -> str:
    """Return the path of an image independent of the location of an image folder."""
    return "/".join(Path(name).parts[-2:]) if Path(name).is_absolute() else name


def before_of(
    row: CriticRlRow, folder: Path, read: Callable[[Path], Picture] = Picture.open
) -> Picture | None:
    """Return the source image of a row, or None if its image was generated from text.

    Raises:
        PictureError: The image cannot be read.
    """
    before = read(folder / row.origin_image_path) if row.origin_image_path else None
    return None if before is None or before.is_white else before


def shown_path(picture: Picture, path: Path | None, shown: Path, pixels: int) -> str:
    """Return the path of the image as the critic sees it: its own, or a changed copy in `shown`."""
    small = scaled_down(picture, min(pixels, MAX_PIXELS))
    if path is not None and small is picture:
        return str(path.resolve())
    copy = shown / f"{small.digest}.png"
    if not copy.exists():
        # Several ranks may write the same image at once; a lost one is written again.
        write_bytes(copy, small.png(), TrainingError, "Image", durable=False)
    return str(copy.resolve())


def as_conversation(message: Message) -> list[dict[str, Any]]:
    """Return a question with placeholders for its images, which a processor fills."""
    content = [
        {"type": "image", "text": None} if isinstance(part, Picture) else {"type": "text", "text": part}
        for part in message.content
    ]
    return [{"role": "user", "content": content}]


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

    @property
    def texts(self) -> dict[str, str]:
        """The request by its field."""
        return {"request": self.request}

    def message(self, prompt_set: PromptSet, pictures: Sequence[Picture]) -> Message:
        """Return the question to the planner; raises SettingsError if it is not valid."""
        try:
            return planner_message(prompt_set, Request(text=self.request, images=tuple(pictures)))
        except SettingsError as error:
            raise SettingsError(f"{self.place or 'A row'}, request: {error.message}", error.hint) from error


def read_planner_rl(
    path: Path, skip_bad: bool = False, images: Path | None = None
) -> tuple[list[PlannerRlRow], list[RowProblem]]:
    """Return (rows of a file, problems of the other rows), as `read_rl_lines`.

    A request must have one `<image>` mark per image.
    """
    return read_rl_lines(path, PlannerRlRow, skip_bad, images)
