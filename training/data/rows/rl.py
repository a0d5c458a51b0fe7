"""Rows of `critic_rl.jsonl` (FORMATS: data files): read line by line, and turned into the questions a critic
is asked.

Decisions. A question is made by the same function that asks the running critic, so that what is trained is
what is used. The question shows a row's `rewritten_prompt` as it is: an empty one, which published rows have
before a first redraw, stays empty, as in the published trainer. A row without a page before it is shown plain
white of the same size, as in use; a white page before it, the published sign for "drawn from text", is none,
so that it is redrawn as it was drawn. The seed of a row's redraws comes from the row's content: siblings of a
group differ by their refined prompts alone, and the order of rows changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from ....backend.agents.critic import critic_message
from ....backend.chat.image_limits import MAX_PIXELS, scaled_down
from ....backend.chat.protocol import Message
from ....backend.errors import SettingsError, TrainingError
from ....backend.files.atomic import write_bytes
from ....backend.loop.policy import hashed_seed
from ....backend.pictures import Picture
from ....backend.prompts import PromptSet
from ....backend.types import Score, Text
from .lengths import ShownRow
from .rl_lines import RlRow, read_rl_lines, write_rl_lines
from .sft import RowProblem

MAX_SEED = 2**31
MAX_ROW_SEED = 2**64 - 1
"""What the generators' libraries take as a seed; redraws with the seed of a row would fail one by one past
it."""


WHITE_PAGE = re.compile(r"(?:^|[/\\])data[/\\]interleave[/\\]white\.png$")
"""Published path of the page before an image that was drawn from text; the data does not bring it along."""
WHITE = "images/data/interleave/white.png"
"""The same page in data that is written here, from the folder of its file. The published trainer needs an
image before, and knows an image that was drawn from text by the end of this path."""
WHITE_SIDE = 1024


class Evaluation(BaseModel):
    """What a judge said of the edited image."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    success: bool = Field(strict=True)
    semantics: float = Field(ge=0, le=10)
    quality: float = Field(ge=0, le=10)

    @property
    def score(self) -> Score:
        return Score(semantics=self.semantics, quality=self.quality)


class CriticRlRow(RlRow):
    """An edit that was made and judged: from which image, for which prompt, drawn with which."""

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
        """The paths by field; no entry where there is no image before."""
        before = {"origin_image_path": self.origin_image_path} if self.origin_image_path else {}
        return before | {"edited_image_path": self.edited_image_path}

    @property
    def prompt_used(self) -> str:
        """Prompt that the edited image was drawn with. The question shows `rewritten_prompt` instead."""
        return self.rewritten_prompt or self.origin_prompt


def read_rl_rows(
    path: Path, skip_bad: bool = False, images: Path | None = None
) -> tuple[list[CriticRlRow], list[RowProblem]]:
    """The rows of a file, every image opened once; and what was wrong with the others. Image paths are
    relative to the file, and absolute for images that were found below `images` by the end of their path.

    Raises SettingsError naming line, field and reason of the first bad row unless `skip_bad`, and for scores
    of another scale.
    """
    rows, problems = read_rl_lines(path, CriticRlRow, skip_bad, images)
    _check_scale(path, rows)
    return rows, problems


def _check_scale(path: Path, rows: Sequence[CriticRlRow]) -> None:
    """Raise SettingsError if the scores of all rows are between 0 and 1, unless all may be images of 0 or 1
    points of 10: whole numbers, and no image that is right."""
    scores = [score for row in rows for score in (row.evaluation.semantics, row.evaluation.quality)]
    if not scores or max(scores) > 1:
        return
    if any(0 < score < 1 for score in scores) or any(row.evaluation.success for row in rows):
        raise SettingsError(
            f"The scores in {str(path)!r} are 0 to 1, and a row's semantics and quality are 0 to 10.",
            "Multiply both by 10 in every row.",
        )


def write_rl_rows(path: Path, rows: Sequence[CriticRlRow]) -> None:
    """Write a data file, one row a line, whole or not at all, and the white page that rows drawn from text
    name; raises SettingsError if they cannot be written."""
    from_text = {"origin_image_path": WHITE}
    if any(row.origin_image_path is None for row in rows):
        page = Picture.white((WHITE_SIDE, WHITE_SIDE))
        write_bytes(path.parent / WHITE, page.png(), SettingsError, "Image")
    write_rl_lines(path, [row if row.origin_image_path else row.with_paths(from_text) for row in rows])


def other_sources(rows: Sequence[CriticRlRow], generator: str, judge: str) -> list[str]:
    """Warnings about rows that another generator drew or another judge scored than the ones that redraw and
    score now: a step reward is the difference of two scores, and says little across two scales."""
    warnings = []
    for what, who, now in (
        ("were drawn", [row.generator for row in rows], generator),
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
    """The seed of a row's redraw number `draw` (0, 1...) in a training with seed `base`: from the content,
    0..2^31."""
    text = f"{base}\0{draw}\0{row.origin_prompt}\0{row.prompt_used}\0{_place_apart(row.edited_image_path)}"
    return hashed_seed(text, bits=64) % MAX_SEED


def _place_apart(name: str) -> str:
    """The path of an image without the place where an image root happens to lie."""
    return "/".join(Path(name).parts[-2:]) if Path(name).is_absolute() else name


def before_of(
    row: CriticRlRow, folder: Path, read: Callable[[Path], Picture] = Picture.open
) -> Picture | None:
    """The page that the row's image is an edit of, None for one that was drawn from text. Raises
    PictureError."""
    before = read(folder / row.origin_image_path) if row.origin_image_path else None
    return None if before is None or before.is_white else before


def shown_path(picture: Picture, path: Path | None, shown: Path, pixels: int) -> str:
    """The path of the image as the critic sees it: its own, or a copy in `shown` that is scaled down, or
    plain white."""
    small = scaled_down(picture, min(pixels, MAX_PIXELS))
    if path is not None and small is picture:
        return str(path.resolve())
    copy = shown / f"{small.digest}.png"
    if not copy.exists():
        # Several ranks may write the same image at once; a lost one is made anew.
        write_bytes(copy, small.png(), TrainingError, "Image", durable=False)
    return str(copy.resolve())


def as_conversation(message: Message) -> list[dict[str, Any]]:
    """A question with its pictures as places, which a processor fills with images given beside it."""
    content = [
        {"type": "image", "text": None} if isinstance(part, Picture) else {"type": "text", "text": part}
        for part in message.content
    ]
    return [{"role": "user", "content": content}]


def as_question(
    row: CriticRlRow, folder: Path, shown: Path, prompt_set: PromptSet, pixels: int = MAX_PIXELS
) -> dict[str, Any]:
    """A row as trl's GRPO trainer wants it: `prompt` (a conversation), `images` (two paths), and `row`, its
    JSON.

    `shown` is a folder for images that are not shown as they are: scaled down as in use, or white for none.
    """
    after = Picture.open(folder / row.edited_image_path)
    edited = before_of(row, folder)
    before = edited or Picture.white(after.size)
    message = critic_message(prompt_set, (before, after), row.origin_prompt, row.rewritten_prompt)
    paths = [
        shown_path(
            before,
            folder / row.origin_image_path if edited and row.origin_image_path else None,
            shown,
            pixels,
        ),
        shown_path(after, folder / row.edited_image_path, shown, pixels),
    ]
    return {
        "prompt": as_conversation(message),
        "images": paths,
        "row": row.line(),
    }


def shown_of(row: CriticRlRow, folder: Path, prompt_set: PromptSet, pixels: int = MAX_PIXELS) -> ShownRow:
    """A row as it is measured, without opening its images; a row without a page before is shown one of the
    same size."""
    blank = Picture.white((1, 1))
    message = critic_message(prompt_set, (blank, blank), row.origin_prompt, row.rewritten_prompt)
    after = folder / row.edited_image_path
    paths = {field: folder / name for field, name in row.image_paths.items()}
    return ShownRow(
        place=row.place,
        texts={"origin_prompt": row.origin_prompt, "rewritten_prompt": row.rewritten_prompt},
        images=[*paths.items()] if len(paths) == 2 else [("edited_image_path", after)] * 2,
        text="".join(part for part in message.content if isinstance(part, str)),
        turns=1,
        area=min(pixels, MAX_PIXELS),
        conversation=lambda: as_conversation(message),
    )
