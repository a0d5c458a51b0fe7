"""A row of `prompts.jsonl`: the published keys, then information on how it was generated.

`id` is the sub-category and a digest of the normalized text, so the same request has the same id in every
file. The split depends on a digest of the content and not of the phrasing, so that two phrasings of one
request are in the same split.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

Split = Literal["train", "validation", "held_out"]
VALIDATION, HELD_OUT = 0.02, 0.02
_NOT_WORDS = re.compile(r"[^\w]+")


@dataclass(frozen=True, slots=True)
class Constraints:
    """Requirements for the plan that the text contains, named as in `backend/agents/plan_constraints.py`."""

    step_count: int = 0
    captions: str = "as asked"
    drawn_words: tuple[str, ...] = ()
    text_ending: bool = False


@dataclass(frozen=True, slots=True)
class GeneratedRow:
    """A request."""

    id: str
    user_input: str
    category: str
    subcategory: str
    template: str
    slots: tuple[tuple[str, str], ...]
    constraints: Constraints
    split: Split
    language: str
    user_input_image: str = ""
    original_input: str = ""
    polished_by: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the row as it is written.

        `user_input_image`, `original_input` and `polished_by` are only included if they are set.
        """
        image = {"user_input_image": self.user_input_image} if self.user_input_image else {}
        polished = (
            {"original_input": self.original_input, "polished_by": self.polished_by}
            if self.polished_by
            else {}
        )
        return {
            "id": self.id,
            "user_input": self.user_input,
            **image,
            **polished,
            "category": self.category,
            "subcategory": self.subcategory,
            "template": self.template,
            "slots": dict(self.slots),
            "constraints": {
                "step_count": self.constraints.step_count,
                "captions": self.constraints.captions,
                "drawn_words": list(self.constraints.drawn_words),
                "text_ending": self.constraints.text_ending,
            },
            "split": self.split,
            "language": self.language,
        }

    def line(self) -> str:
        """Return the row as a line of a file."""
        return json.dumps(self.as_json(), ensure_ascii=False) + "\n"


def normal_form(text: str) -> str:
    """Return the text without differences in case, punctuation and spaces."""
    return _NOT_WORDS.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


def id_of(subcategory: str, normal: str) -> str:
    """Return the sub-category's code and 12 hex digits of the normalized text."""
    return f"{subcategory}-{hashlib.blake2b(normal.encode(), digest_size=6).hexdigest()}"


def split_of(subcategory: str, content: Iterable[tuple[str, str]]) -> Split:
    """Return the split of all requests about this content."""
    parts = "\0".join([subcategory, *sorted(value for _, value in content)])
    share = int.from_bytes(hashlib.blake2b(parts.encode(), digest_size=8).digest(), "big") / 2**64
    if share < 1 - VALIDATION - HELD_OUT:
        return "train"
    return "validation" if share < 1 - HELD_OUT else "held_out"
