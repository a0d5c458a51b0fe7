"""Removes an API key from everything that a server sends.

What a server sends ends up in errors, records, pages and the identity of a run, and servers echo what they
receive: complete headers, the beginning of a wrong key, a key in base64 or URL-encoded. Every sequence of
eight characters of the key, in any of these forms, is therefore removed from a server's text before anything
else sees it. This protects against careless servers. A malicious server has the key already. Keys of fewer
than six characters are placeholders, such as "none", and are not masked.
"""

from __future__ import annotations

import base64
import re

MARK = "(key)"
MIN_KEY = 6
WINDOW = 8
"""Length of the sequences of a key, or of one of its forms, that are removed."""
MAX_HELD_BACK = 4096
ESCAPE = re.compile(
    r"%([0-9a-f]{2})|\\u00([0-9a-f]{2})|\\x([0-9a-f]{2})|&#x0{0,4}([0-9a-f]{1,2});|&#0{0,4}([0-9]{1,3});|\\(/)",
    re.IGNORECASE,
)
ESCAPE_BEGUN = re.compile(
    r"(?:%[0-9a-f]?|\\u?[0-9a-f]{0,3}|\\x[0-9a-f]?|&#?x?[0-9a-f]{0,6})\Z", re.IGNORECASE
)
LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


class KeyMask:
    """Replaces a key by `(key)`. Without a key, or with one shorter than MIN_KEY, texts are unchanged."""

    def __init__(self, key: str | None) -> None:
        secret = key if key and len(key) >= MIN_KEY else ""
        self._windows = {part for form in _forms(secret) for part in _windows(form.translate(LOWER))}
        self._sizes = sorted({len(part) for part in self._windows})
        self._beginnings = {part[:size] for part in self._windows for size in range(1, len(part))}

    def __repr__(self) -> str:
        return "KeyMask(...)"

    def __call__(self, text: str) -> str:
        """Return the text without the key."""
        return self._masked(text, self._found(text)) if self._windows else text

    def settled(self, text: str) -> tuple[str, str]:
        """Split an incomplete text into a part that can be shown, without the key, and a rest.

        A key may begin in the rest.
        """
        if not self._windows:
            return text, ""
        begun = ESCAPE_BEGUN.search(text)
        whole = begun.start() if begun else len(text)
        places, plain = _plain(text[:whole])
        cut = whole
        longest = self._sizes[-1] - 1
        for index in range(max(0, len(plain) - longest), len(plain)):
            if plain[index:] in self._beginnings:
                cut = places[index]
                break
        for start, end in self._found(text[:whole]):
            if start < cut <= end:
                cut = start
        if len(text) - cut > MAX_HELD_BACK:
            cut = len(text) - 2 * WINDOW
        return self._masked(text[:cut], self._found(text[:cut])), text[cut:]

    def _found(self, text: str) -> list[tuple[int, int]]:
        """Return the positions of the key, as start and end, in order."""
        places, plain = _plain(text)
        found: list[tuple[int, int]] = []
        for size in self._sizes:
            for index in range(len(plain) - size + 1):
                if plain[index : index + size] in self._windows:
                    found.append((places[index], places[index + size]))
        merged: list[tuple[int, int]] = []
        for start, end in sorted(found):
            if merged and start <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(end, merged[-1][1])
            else:
                merged.append((start, end))
        return merged

    def _masked(self, text: str, found: list[tuple[int, int]]) -> str:
        parts, last = [], 0
        for start, end in found:
            parts += [text[last:start], MARK]
            last = end
        return "".join([*parts, text[last:]])


class GrowingMask:
    """Masks a text that arrives in pieces. A piece is returned once no key can begin in it."""

    def __init__(self, mask: KeyMask) -> None:
        self._mask = mask
        self._rest = ""

    def add(self, piece: str) -> str:
        """Add a piece and return the text that can be shown now, which may be empty."""
        given, self._rest = self._mask.settled(self._rest + piece)
        return given

    def end(self) -> str:
        """Return the rest of the text at its end."""
        rest, self._rest = self._rest, ""
        return self._mask(rest)


def _forms(key: str) -> list[str]:
    """Return the key as is, in hexadecimal, and in base64 at each of the three alignments."""
    if not key:
        return []
    content = key.encode("utf-8", "surrogateescape")
    forms = [key, content.hex()]
    for offset, skipped in ((0, 0), (1, 2), (2, 3)):
        whole = base64.b64encode(b"\0" * offset + content).decode("ascii").rstrip("=")
        # The last character also depends on what follows the key, unless the bytes of the key end there.
        core = whole[skipped:] if (offset + len(content)) % 3 == 0 else whole[skipped:-1]
        forms += [core, core.replace("+", "-").replace("/", "_")]
    return forms


def _windows(form: str) -> list[str]:
    size = min(WINDOW, len(form))
    return [form[index : index + size] for index in range(len(form) - size + 1)] if size >= MIN_KEY else []


def _plain(text: str) -> tuple[list[int] | range, str]:
    """Return the text in lowercase with escapes decoded, and the position of each character in the original.

    The positions include the end of the text.
    """
    if "%" not in text and "\\" not in text and "&#" not in text:
        return range(len(text) + 1), text.translate(LOWER)
    places: list[int] = []
    parts: list[str] = []
    last = 0
    for match in ESCAPE.finditer(text):
        *hexadecimal, decimal, slash = match.groups()
        code = next((part for part in hexadecimal if part), None)
        number = int(code, 16) if code else int(decimal) if decimal else ord(slash)
        places += [*range(last, match.start()), match.start()]
        parts += [text[last : match.start()], chr(number)]
        last = match.end()
    places += range(last, len(text) + 1)
    return places, "".join([*parts, text[last:]]).translate(LOWER)
