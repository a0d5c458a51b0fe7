"""Collator of fine-tuning batches: scales images down and masks parts of an answer that must not be learned.

trl's collator builds the batch, and labels are removed afterwards. To find which tokens belong to a part of
an answer, the learned tokens are decoded and encoded again with offsets. The chat template may therefore add
anything around the answer; a template that changes the answer itself raises an error instead of teaching
something wrong. A token that is only partly in a masked part is masked as well.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

from ...backend.chat.image_limits import MAX_PIXELS, scaled_down
from ...backend.errors import TrainingError
from ...backend.pictures import Picture

IGNORE_INDEX = -100
"""Label of a token that the loss ignores."""
CONTEXT = 40
"""Characters before and after a part that identify its position."""


class MaskedImageCollator:
    """Wraps trl's `collator`: scales images down and masks the parts listed in `not_learned`.

    Images are scaled as by the running agents, and to at most `pixels`. The batch is that of trl, with
    `input_ids` and `labels` of the shape `(rows, tokens)`.
    """

    def __init__(
        self, collator: Callable[[list[dict[str, Any]]], Any], pixels: int, tokenizer: Any = None
    ) -> None:
        self.collator = collator
        self.pixels = pixels
        self.tokenizer = tokenizer

    def __call__(self, examples: list[dict[str, Any]]) -> Any:
        """Return trl's batch of these examples with masked labels."""
        for example in examples:
            area = min(self.pixels, MAX_PIXELS)
            example["images"] = [scaled_down(Picture(image), area).image for image in example["images"]]
        marked = [(_answer(example), _parts(example)) for example in examples]
        batch = self.collator(examples)
        for number, (answer, parts) in enumerate(marked):
            if parts:
                mask_labels(
                    self.tokenizer, batch["input_ids"][number], batch["labels"][number], answer, parts
                )
        return batch


def mask_labels(tokenizer: Any, ids: Any, labels: Any, answer: str, parts: Sequence[tuple[int, int]]) -> None:
    """Set the labels of parts of an answer to `IGNORE_INDEX`, in place.

    Args:
        tokenizer: Tokenizer of the model.
        ids: Token ids of one row, `(tokens,)`.
        labels: Labels of the row, `(tokens,)`.
        answer: Text of the answer.
        parts: Character ranges `(start, end)` of the answer.

    Raises:
        TrainingError: The learned tokens of the row do not decode to this answer.
    """
    places = (labels != IGNORE_INDEX).nonzero().flatten()
    learned = ids[places].tolist()
    text = tokenizer.decode(learned, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    if encoded["input_ids"] != learned:
        raise TrainingError(
            "Cannot mask a part of an answer: the learned tokens do not decode to the answer.",
            "Use a checkpoint whose tokenizer and chat template belong together.",
        )
    for start, end in parts:
        first, last = _found(text, answer, start, end)
        inside = [begin < last and first < stop for begin, stop in encoded["offset_mapping"]]
        for place, within in zip(places.tolist(), inside, strict=True):
            if within:
                labels[place] = IGNORE_INDEX


def _found(text: str, answer: str, start: int, end: int) -> tuple[int, int]:
    """Return the range of this part of the answer in `text`, the decoded tokens."""
    pieces = (answer[max(0, start - CONTEXT) : start], answer[start:end], answer[end : end + CONTEXT])
    # Some tokenizers normalize text to composed characters (NFC).
    for before, part, after in (pieces, [unicodedata.normalize("NFC", piece) for piece in pieces]):
        if text.count(before + part + after) == 1:
            first = text.index(before + part + after) + len(before)
            return first, first + len(part)
    raise TrainingError(
        f"The checkpoint's chat template changes the answer at {answer[start:end]!r}.",
        "Train without such rows: write the refined prompt yourself, or remove the annotation.",
    )


def _answer(example: dict[str, Any]) -> str:
    content = example["completion"][0]["content"]
    return content if isinstance(content, str) else "".join(part.get("text") or "" for part in content)


def _parts(example: dict[str, Any]) -> list[tuple[int, int]]:
    return [(start, end) for start, end in example["completion"][0].get("not_learned") or []]
