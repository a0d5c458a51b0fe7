"""Text from elsewhere as it may be stored, and as it may be shown on a terminal and in a log.

A lone surrogate is half of a character. It comes from servers that cut an emoji between two events, from JSON
that escapes one half, and from command-line arguments whose bytes are not UTF-8. Python keeps it in a string,
but no file, server or digest accepts it, so it would end a run long after it came in.

Decision: control characters are left out and not escaped: a terminal would obey them (move the cursor, set
its title, fill the clipboard), and no reader misses them. So are the marks that turn the direction of writing
over the end of a text.
"""

from __future__ import annotations

import re

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")
"""All but line feed and tabulator."""
SURROGATE = re.compile("[\ud800-\udfff]")
FIRST_HALF = re.compile("[\ud800-\udbff]\\Z")


def shown_text(text: str) -> str:
    """The text without what a terminal would obey; lines and tabulators stay."""
    return CONTROL.sub("", text)


def one_line(text: str) -> str:
    """The text so that it can be shown, in one line."""
    return " ".join(part for part in map(str.strip, shown_text(text).splitlines()) if part)


def valid_text(text: str) -> str:
    """Join the halves of characters that follow each other, and replace every other half by U+FFFD."""
    if not SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class JoinedHalves:
    """Makes a text valid that arrives in pieces: the first half of a character waits for the second."""

    def __init__(self) -> None:
        self._half = ""

    def add(self, piece: str) -> str:
        """Return what is whole of the text so far and was not returned before."""
        text = self._half + piece
        self._half = text[-1:] if FIRST_HALF.search(text) else ""
        return valid_text(text[: len(text) - len(self._half)])

    def end(self) -> str:
        """Return what waited for a second half that never came."""
        half, self._half = self._half, ""
        return valid_text(half)
