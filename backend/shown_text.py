"""Text from elsewhere as it may be shown on a terminal and in a log.

Decision: control characters are left out and not escaped: a terminal would obey them (move the cursor, set
its title, fill the clipboard), and no reader misses them. So are the marks that turn the direction of writing
over the end of a text.
"""

from __future__ import annotations

import re

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")
"""All but line feed and tabulator."""


def shown_text(text: str) -> str:
    """The text without what a terminal would obey; lines and tabulators stay."""
    return CONTROL.sub("", text)


def one_line(text: str) -> str:
    """The text so that it can be shown, in one line."""
    return " ".join(part for part in map(str.strip, shown_text(text).splitlines()) if part)
