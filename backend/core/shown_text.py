"""Makes foreign text safe to store and to show on a terminal or in a log.

A lone surrogate is half of a character. It comes from servers that split an emoji between two events, from
JSON that escapes one half, and from command-line arguments that are not UTF-8. Python keeps it in a string,
but files, servers and digests reject it, so it would end a run long after it was read.

Control characters are removed and not escaped: a terminal would obey them (move the cursor, set its title,
fill the clipboard), and readers do not miss them. The same holds for marks that change the writing direction
of the rest of a text.
"""

from __future__ import annotations

import re
import unicodedata

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")
"""All control characters except line feed and tab."""
SURROGATE = re.compile("[\ud800-\udfff]")
NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def shown_text(text: str) -> str:
    """Return the text without characters that a terminal would obey. Line feeds and tabs stay."""
    return CONTROL.sub("", text)


def one_line(text: str) -> str:
    """Return the text on one line, safe to show."""
    return " ".join(part for part in map(str.strip, shown_text(text).splitlines()) if part)


def xml_text(text: str) -> str:
    """Return the text without characters that an XML file cannot contain, not even escaped."""
    return NOT_XML.sub("", text)


def is_right_to_left(text: str) -> bool:
    """Return whether the first letter with a direction is of a script that is read from right to left."""
    directions = (unicodedata.bidirectional(letter) for letter in text)
    return next((one for one in directions if one in ("L", "R", "AL")), "L") != "L"


def valid_text(text: str) -> str:
    """Join surrogate halves that follow each other, and replace every other half by U+FFFD."""
    if not SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
