"""A row of `prompts.jsonl`: the published keys first, then what is known of how it was made.

Decision: `id` is the sub-category and a digest of the text in its normal form, so the same request has the
same id in every file. The split goes by a digest of what the request is about and not of its wording: two
wordings of one request never lie on both sides.
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
    """What the text asks of a plan, by the names of `backend/agents/plan_constraints.py` where it has them;
    all of it stands in the text already."""

    step_count: int = 0
    captions: str = "as asked"
    drawn_words: tuple[str, ...] = ()
    text_ending: bool = False


@dataclass(frozen=True, slots=True)
class GeneratedRow:
    """One request."""

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
        """The row as it is written: `user_input_image`, `original_input` and `polished_by` only where there
        is one."""
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
        """The row as a line of a file."""
        return json.dumps(self.as_json(), ensure_ascii=False) + "\n"


def normal_form(text: str) -> str:
    """The text without what makes no difference: case, punctuation, blanks."""
    return _NOT_WORDS.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


def id_of(subcategory: str, normal: str) -> str:
    """Code of the sub-category and 12 hex digits of the text's normal form."""
    return f"{subcategory}-{hashlib.blake2b(normal.encode(), digest_size=6).hexdigest()}"


def split_of(subcategory: str, content: Iterable[tuple[str, str]]) -> Split:
    """On which side all requests about this content lie."""
    parts = "\0".join([subcategory, *sorted(value for _, value in content)])
    share = int.from_bytes(hashlib.blake2b(parts.encode(), digest_size=8).digest(), "big") / 2**64
    if share < 1 - VALIDATION - HELD_OUT:
        return "train"
    return "validation" if share < 1 - HELD_OUT else "held_out"
