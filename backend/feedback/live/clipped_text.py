"""Texts of messages to the browser, clipped to a number of bytes, and prompts with their changes marked."""

from __future__ import annotations

import json
from typing import Literal

from ...report.prompt_diff import changes

PROMPT_BYTES = 1200
PIECES_BYTES = 1800
LINE_BYTES = 400

Pieces = list[tuple[Literal["same", "ins", "del"], str]]


def marked(before: str, after: str) -> Pieces:
    """Return the later prompt with insertions and deletions marked, or unmarked if that is too long."""
    old, new = clip(before, PROMPT_BYTES), clip(after, PROMPT_BYTES)
    pieces: Pieces = [(piece.kind, piece.text) for piece in changes(old, new)]
    if len(json.dumps(pieces)) > PIECES_BYTES:
        return [("same", new)]
    return pieces


def clip(text: str, limit: int) -> str:
    """Return the text, cut with an ellipsis if its JSON has more than `limit` bytes."""
    if len(text) * 6 <= limit or len(json.dumps(text)) <= limit:
        return text
    room = limit - len(json.dumps(" …"))
    for index, character in enumerate(text):
        room -= len(json.dumps(character)) - 2
        if room < 0:
            return text[:index] + " …"
    return text
