"""Which rows a model can be shown, and how many tokens each takes, image tokens included, before any model is
loaded.

Decisions. An upper estimate decides for nearly all rows (text, images and a generous allowance for the
template), and only rows near the limit are put through the chat template: a hundred thousand rows are
measured in seconds. A special token of the tokenizer (`<|image_pad|>`, `<|im_end|>`) inside a row's text is
refused: it would be read as an image that is not there, or as the end of a turn, and end the training in its
middle or teach a conversation that nobody wrote.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from ....backend.chat.chat_template import rendered
from ....backend.chat.image_limits import MAX_PIXELS
from ....backend.errors import SettingsError
from ....backend.feedback.sft_row import SftRow
from ....backend.pictures import Picture, size_of
from .conversations import as_prompt_completion
from .sft import RowProblem, show_problems

TEMPLATE_TOKENS = 16
"""More than a chat template adds to a message or an image."""
Row = TypeVar("Row")


@dataclass(frozen=True)
class ShownRow:
    """What a model is shown of a row: `texts` are the row's texts and `images` its pictures, both by
    field; `text` is all that is written, in `turns` messages; `conversation` makes it for a chat template."""

    place: str
    texts: Mapping[str, str]
    images: Sequence[tuple[str, Path]]
    text: str
    turns: int
    area: int
    conversation: Callable[[], list[dict[str, Any]]]


def shown_of(row: SftRow, folder: Path, pixels: int = MAX_PIXELS) -> ShownRow:
    """A fine-tuning row as it is measured; image paths are relative to `folder`."""

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
    """Tokens of each row: exact where the upper estimate is above `limit`, else that estimate. A RowProblem
    for a row with a special token in its text, or an image in a shape that the model's reader
    refuses."""
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
    """How long a row may be, in tokens; `option` of the command sets it. Rows that are longer, or cannot be
    shown, are left out if `skip_bad`, else an error."""

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
    """The rows that can be shown within the limit; logs how long the longest is. `which` is put before the
    places of rows in messages.

    Raises SettingsError naming place, field and reason of the first other one unless they are skipped, and if
    no row is left.
    """
    most, option = limit.tokens, limit.option
    shown = [replace(row, place=which + (row.place or f"row {number}")) for number, row in enumerate(shown)]
    lengths = [
        RowProblem(row.place, "length", f"{length} tokens, and {most} at most are taken ({option})")
        if isinstance(length, int) and length > most
        else length
        for row, length in zip(shown, row_lengths(shown, processor, most), strict=True)
    ]
    problems = [length for length in lengths if isinstance(length, RowProblem)]
    if problems and not limit.skip_bad:
        raise SettingsError(str(problems[0]).capitalize(), "Mend it, or leave such rows out: --skip-bad.")
    fitting = [row for row, length in zip(rows, lengths, strict=True) if isinstance(length, int)]
    show_problems(problems, len(fitting), log)
    if not fitting:
        raise SettingsError(
            f"No row can be used, the first because of this: {problems[0] if problems else '(none)'}"
        )
    longest = max(length for length in lengths if isinstance(length, int))
    log(
        f"longest {which}row about {longest} tokens, image tokens included; "
        f"at most {most} are taken ({option})"
    )
    return fitting


def _special_tokens(processor: Any) -> re.Pattern[str]:
    """The tokenizer's special tokens, and those that stand for images: any of them in one pattern."""
    added = processor.tokenizer.added_tokens_decoder.values()
    tokens = {str(token) for token in added if token.special}
    tokens |= {getattr(processor, name, None) or "" for name in ("image_token", "video_token")}
    return re.compile("|".join(re.escape(word) for word in sorted(tokens - {""})) or r"(?!)")


def _token_problem(row: ShownRow, special: re.Pattern[str]) -> RowProblem | None:
    for field, text in row.texts.items():
        if found := special.search(text):
            reason = f"{found.group()!r} is a special token of the model and cannot stand in a text"
            return RowProblem(row.place, field, reason)
    return None


def _exact(row: ShownRow, processor: Any) -> int:
    """Tokens of the row through the chat template, without what its images take."""
    turns = row.conversation()
    asks = turns[-1]["role"] == "user"
    text = rendered(processor, turns, asks)
    return len(processor.tokenizer(text, add_special_tokens=False)["input_ids"]) - len(row.images)


def _image_tokens(row: ShownRow, processor: Any, sizes: dict[Path, tuple[int, int]]) -> int | RowProblem:
    """Tokens of the row's images at the size at which they are shown."""
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
    """Tokens of an image of that width and height, shown with at most `area` pixels; raises ValueError for a
    shape that the model's reader refuses."""
    width, height = size
    reader = processor.image_processor
    scale = min(1.0, (area / (width * height)) ** 0.5)
    shape = max(1, int(height * scale)), max(1, int(width * scale))
    if hasattr(reader, "merge_size") and hasattr(reader, "get_number_of_image_patches"):
        return reader.get_number_of_image_patches(*shape, {}) // reader.merge_size**2
    return _counted(processor, *shape)


@lru_cache(maxsize=4096)
def _counted(processor: Any, height: int, width: int) -> int:
    """Tokens of an image of that size in a family whose reader does not say: an empty one is shown to it."""
    turns = [{"role": "user", "content": [{"type": "image"}]}]
    text = rendered(processor, turns, asks=False)
    image = Picture.white((width, height)).image
    whole = processor(text=[text], images=[[image]])["input_ids"][0]
    return len(whole) - len(processor.tokenizer(text, add_special_tokens=False)["input_ids"]) + 1


def most_tokens(texts: Sequence[str], sizes: Sequence[tuple[int, int]], processor: Any) -> int:
    """Upper estimate of the tokens of a conversation of these turns and images, before it has files; raises
    ValueError as `tokens_of_image` does."""
    ids = processor.tokenizer(list(texts), add_special_tokens=False)["input_ids"]
    pictures = sum(tokens_of_image(size, processor) for size in sizes)
    return sum(map(len, ids)) + pictures + TEMPLATE_TOKENS * (len(texts) + len(sizes) + 1)
