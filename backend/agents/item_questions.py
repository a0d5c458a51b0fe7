"""Questions to the critic about single items of a checklist, answered with yes or no.

Each item is one message. All messages about an image begin alike (images, then the prompt), so that an agent
of this process and most servers read the images once. A change of the text needs a new `CHECKS` version in
journal/store.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..chat.protocol import Message
from ..pictures import Picture

QUESTION = (
    "The first image is before the step, and white if there was none. The second image is the result of the "
    "step. It was generated for this prompt: {prompt}"
)
ITEM = "Is this true of the second image: {item}? Answer with one word, yes or no."
EVEN = 0.5
"""P(yes) from which on an item is true."""
ONE_WORD: dict[str, Any] = {
    "max_tokens": 4,
    "temperature": 0.0,
    "watch_verdict": False,
    "watch_yes_no": True,
    "grammar": None,
}
"""Reply settings for an answer of one word."""
ANSWER = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)


def item_message(pictures: Sequence[Picture], prompt: str, item: str) -> Message:
    """Return the question about an item, with the images before and after the step."""
    question = ITEM.format(item=item.rstrip(" .?!"))
    return Message(role="user", content=(*pictures, f"{QUESTION.format(prompt=prompt)}\n\n{question}"))


def read_yes_no(text: str) -> bool | None:
    """Return the answer that a reply begins with; `None` if it is neither yes nor no."""
    found = ANSWER.match(text)
    return None if found is None else found[1].lower() == "yes"
