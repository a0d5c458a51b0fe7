"""Finds the rows that fit a model, and their tokens including image tokens, before any model is loaded.

Most rows are decided by an upper estimate (text, images and a generous allowance for the chat template); only
rows near the limit are put through the template, so that a hundred thousand rows take seconds. A special
token of the tokenizer (`<|image_pad|>`, `<|im_end|>`) in a row's text is refused. It would be read as a
missing image or as the end of a turn, and stop the training or teach a wrong conversation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from ...backend.core.errors import SettingsError
from ...backend.core.pictures import Picture, size_of
from ...backend.core.seams.chat_model import MAX_PIXELS, shown_size
from ...backend.models.chat.chat_template import rendered
from ...backend.output.sft_rows import SftRow
from ..trainer.progress import planned
from .sft import as_prompt_completion
from .values import RowProblem, show_problems

MAX_EXACT = 5000
"""Maximum number of rows whose tokens a dry run counts exactly, with the chat template."""
TEMPLATE_TOKENS = 16
"""Upper bound of the tokens that a chat template adds to a message or an image."""
Row = TypeVar("Row")


@dataclass(frozen=True)
class ShownRow:
    """What a model is shown of a row.

    `texts` and `images` are the row's texts and images by field; `text` is all text in `turns` messages;
    `area` is the largest area of an image; `conversation` builds the input of a chat template.
    """

    place: str
    texts: Mapping[str, str]
    images: Sequence[tuple[str, Path]]
    text: str
    turns: int
    area: int
    conversation: Callable[[], list[dict[str, Any]]]


def shown_of(row: SftRow, folder: Path, pixels: int = MAX_PIXELS) -> ShownRow:
    """Return a fine-tuning row as it is measured; image paths are relative to `folder`."""

    def conversation() -> list[dict[str, Any]]:
        parts = as_prompt_completion(row, folder)
        return [*parts["prompt"], *parts["completion"]]

    return ShownRow(
        place=row.place,
        texts={f"messages.{number}": message.content for number, message in enumerate(row.messages)},
        images=[("images", folder / name) for name in row.images],
        text="".join(message.content for message in row.messages),
        turns=len(row.messages),
        area=min(pixels, MAX_PIXELS),
        conversation=conversation,
    )


def row_lengths(rows: Sequence[ShownRow], processor: Any, limit: int) -> list[int | RowProblem]:
    """Return the tokens of each row: exact if an upper estimate is above `limit`, otherwise this estimate.

    A row with a special token in its text, or with an image of a shape that the processor rejects, gets a
    RowProblem.
    """
    sizes: dict[Path, tuple[int, int]] = {}
    special = _special_tokens(processor)
    lengths: list[int | RowProblem] = []
    for start in range(0, len(rows), 4096):
        part = rows[start : start + 4096]
        encoded = processor.tokenizer([row.text for row in part], add_special_tokens=False)["input_ids"]
        for row, ids in zip(part, encoded, strict=True):
            pictures = _token_problem(row, special) or _image_tokens(row, processor, sizes)
            if isinstance(pictures, RowProblem):
                lengths.append(pictures)
                continue
            estimate = len(ids) + pictures + TEMPLATE_TOKENS * (row.turns + len(row.images) + 1)
            lengths.append(estimate if estimate <= limit else _exact(row, processor) + pictures)
    return lengths


@dataclass(frozen=True)
class TokenLimit:
    """Maximum length of a row in tokens, and the `option` that sets it.

    Longer rows, and rows that cannot be shown, raise an error, or are left out with `skip_bad`.
    """

    tokens: int
    option: str
    skip_bad: bool = False


def fitting(
    rows: Sequence[Row],
    shown: Sequence[ShownRow],
    processor: Any,
    limit: TokenLimit,
    log: Callable[[str], None],
    which: str = "",
) -> list[Row]:
    """Return the rows that can be shown within the limit, and log the length of the longest.

    `which` precedes the rows' places in messages, such as "held-out ".

    Raises:
        SettingsError: A row cannot be shown and such rows are not skipped, or none can be used. It names
            place, field and reason.
    """
    most, option = limit.tokens, limit.option
    shown = [replace(row, place=which + (row.place or f"row {number}")) for number, row in enumerate(shown)]
    exact = planned.get() is not None and len(shown) <= MAX_EXACT
    measured = row_lengths(shown, processor, 0 if exact else most)
    if planned.get() is not None:
        for line in distribution(measured, limit, which, exact):
            log(line)
    lengths = [
        RowProblem(row.place, "length", f"{length} tokens exceed the maximum of {most} ({option})")
        if isinstance(length, int) and length > most
        else length
        for row, length in zip(shown, measured, strict=True)
    ]
    problems = [length for length in lengths if isinstance(length, RowProblem)]
    if problems and not limit.skip_bad:
        raise SettingsError(
            str(problems[0]).capitalize(), "Fix the row, or leave out such rows with --skip-bad."
        )
    fitting = [row for row, length in zip(rows, lengths, strict=True) if isinstance(length, int)]
    show_problems(problems, len(fitting), log)
    if not fitting:
        first = problems[0] if problems else "the file is empty"
        raise SettingsError(
            f"None of the {which}rows can be used; the first problem: {first}", "Fix the data file."
        )
    longest = max(length for length in lengths if isinstance(length, int))
    tokens = f"{longest} tokens" if exact else f"at most about {longest} tokens"
    log(f"longest {which}row: {tokens}, image tokens included (maximum {most}, set by {option})")
    return fitting


def distribution(
    lengths: Sequence[int | RowProblem], limit: TokenLimit, which: str, exact: bool
) -> Iterator[str]:
    """Yield a line about the tokens of the rows, for a dry run. Rows are never truncated."""
    known = sorted(length for length in lengths if isinstance(length, int))
    if not known:
        return
    over = sum(length > limit.tokens for length in known)
    result = "left out" if limit.skip_bad else "an error without --skip-bad"
    yield (
        f"tokens per {which}row{'' if exact else ' (upper estimate)'}: min {known[0]}, median "
        f"{round(median(known))}, max {known[-1]}, image tokens included; {over} of {len(lengths)} rows are "
        f"longer than {limit.tokens} ({limit.option}){f': {result}' if over else ''}; no row is truncated"
    )


def _special_tokens(processor: Any) -> re.Pattern[str]:
    """Return a pattern for the tokenizer's special tokens and for image tokens."""
    added = processor.tokenizer.added_tokens_decoder.values()
    tokens = {str(token) for token in added if token.special}
    tokens |= {getattr(processor, name, None) or "" for name in ("image_token", "video_token")}
    return re.compile("|".join(re.escape(word) for word in sorted(tokens - {""})) or r"(?!)")


def _token_problem(row: ShownRow, special: re.Pattern[str]) -> RowProblem | None:
    for field, text in row.texts.items():
        if found := special.search(text):
            reason = f"{found.group()!r} is a special token of the model and is not allowed in a text"
            return RowProblem(row.place, field, reason)
    return None


def _exact(row: ShownRow, processor: Any) -> int:
    """Return the row's tokens after the chat template, without those of its images."""
    turns = row.conversation()
    asks = turns[-1]["role"] == "user"
    text = rendered(processor, turns, asks)
    return len(processor.tokenizer(text, add_special_tokens=False)["input_ids"]) - len(row.images)


def _image_tokens(row: ShownRow, processor: Any, sizes: dict[Path, tuple[int, int]]) -> int | RowProblem:
    """Return the tokens of the row's images at the size at which they are shown."""
    tokens = 0
    for field, path in row.images:
        if path not in sizes:
            sizes[path] = size_of(path)
        try:
            tokens += tokens_of_image(sizes[path], processor, row.area)
        except ValueError as error:
            width, height = sizes[path]
            return RowProblem(row.place, field, f"{path.name!r} is {width}x{height} pixels ({error})")
    return tokens


def tokens_of_image(size: tuple[int, int], processor: Any, area: int = MAX_PIXELS) -> int:
    """Return the tokens of an image with this width and height, shown with at most `area` pixels.

    Raises:
        ValueError: The processor rejects the shape.
    """
    width, height = shown_size(size, area)
    reader = processor.image_processor
    if hasattr(reader, "merge_size") and hasattr(reader, "get_number_of_image_patches"):
        return reader.get_number_of_image_patches(height, width, {}) // reader.merge_size**2
    return _counted(processor, height, width)


@lru_cache(maxsize=4096)
def _counted(processor: Any, height: int, width: int) -> int:
    """Return the tokens of an image by processing a blank one, for families that do not report the number."""
    turns = [{"role": "user", "content": [{"type": "image"}]}]
    text = rendered(processor, turns, asks=False)
    image = Picture.white((width, height)).image
    whole = processor(text=[text], images=[[image]])["input_ids"][0]
    return len(whole) - len(processor.tokenizer(text, add_special_tokens=False)["input_ids"]) + 1
