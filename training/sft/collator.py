"""Batches of fine-tuning: images at the size at which agents show them, and parts of an answer that are not
learned.

Decision: trl's collator makes the batch, and labels are taken away afterwards. Which tokens a part of an
answer became is read off the batch itself, by decoding what is learned and encoding it again with offsets:
the chat template may put what it likes around the answer, and a template that changes the answer is an error
here instead of a wrong lesson. A token that is half in such a part is not learned.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

from ...backend.chat.image_limits import MAX_PIXELS, scaled_down
from ...backend.errors import TrainingError
from ...backend.pictures import Picture

IGNORE_INDEX = -100
"""The label of a token that is not learned."""
CONTEXT = 40
"""Characters around a part by which it is found again."""


class MaskedImageCollator:
    """A collator whose images are scaled down as in use, and to at most `pixels`, and which takes the labels
    of `not_learned` away; `collator` is trl's."""

    def __init__(
        self, collator: Callable[[list[dict[str, Any]]], Any], pixels: int, tokenizer: Any = None
    ) -> None:
        self.collator = collator
        self.pixels = pixels
        self.tokenizer = tokenizer

    def __call__(self, examples: list[dict[str, Any]]) -> Any:
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
    """Take the labels of these parts of the answer, ranges of its characters, out of a row of a batch, in
    place.

    Raises TrainingError if the answer is not what the row's labels say.
    """
    places = (labels != IGNORE_INDEX).nonzero().flatten()
    learned = ids[places].tolist()
    text = tokenizer.decode(learned, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    if encoded["input_ids"] != learned:
        raise TrainingError("An answer with a part that is not to be learned cannot be found in its tokens.")
    for start, end in parts:
        first, last = _found(text, answer, start, end)
        inside = [begin < last and first < stop for begin, stop in encoded["offset_mapping"]]
        for place, within in zip(places.tolist(), inside, strict=True):
            if within:
                labels[place] = IGNORE_INDEX


def _found(text: str, answer: str, start: int, end: int) -> tuple[int, int]:
    """Where this part of the answer stands in the text that the trainer made of it."""
    pieces = (answer[max(0, start - CONTEXT) : start], answer[start:end], answer[end : end + CONTEXT])
    # A tokenizer may compose characters; its text is then composed too.
    for before, part, after in (pieces, [unicodedata.normalize("NFC", piece) for piece in pieces]):
        if text.count(before + part + after) == 1:
            first = text.index(before + part + after) + len(before)
            return first, first + len(part)
    raise TrainingError(
        f"The chat template does not leave {answer[start:end]!r} as it stands in its answer.",
        "Train without such rows: write the better prompt, or take the annotation back.",
    )


def _answer(example: dict[str, Any]) -> str:
    content = example["completion"][0]["content"]
    return content if isinstance(content, str) else "".join(part.get("text") or "" for part in content)


def _parts(example: dict[str, Any]) -> list[tuple[int, int]]:
    return [(start, end) for start, end in example["completion"][0].get("not_learned") or []]
