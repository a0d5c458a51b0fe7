"""Regular expressions for the parts of an object in an agent's answer.

Every pattern has limited repetition or reads a text once, so parsing takes linear time for any answer.
"""

from __future__ import annotations

import re
from functools import partial

# A brace in prose ("the set {a, b}") does not start an answer: something like a key must follow it.
OBJECT_START = re.compile(
    r"\{\s*(?:\"[^\"\n]{0,80}\"|'[^'\n]{0,80}'|[“‘]?[A-Za-z_][\w -]{0,40}[”’]?)\s{0,30}[:：]"
)
KEY = re.compile(
    r"(?:\"((?:[^\"\\\n]|\\.){0,200})\"|'((?:[^'\\\n]|\\.){0,200})'|([“‘]?[A-Za-z_][\w "
    r"-]{0,40}[”’]?))\s{0,30}([:：])"
)
CUT_KEY = re.compile(r"[\"'“‘]?[\w -]{0,80}[\"'”’]?\s*")
BLANK = re.compile(r"\s*")
STRICT_TEXT = {quote: re.compile(rf"[^{quote}\\]*(?:\\.[^{quote}\\]*)*", re.DOTALL) for quote in ('"', "'")}
WORD = re.compile(r"[^,，}\]\n]*")
NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,15})?(?:[eE][+-]?\d{1,2})?")
WORDS = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}
NOT_IN_A_WORD = re.compile(r"[\"“”{\[]")
CLOSING = {'"': '"', "'": "'", "“": "”", "‘": "’"}
# What may follow the closing quote of a text. Models do not escape quotes and apostrophes within a text.
_KEY_FOLLOWS = r"[\"'“‘]?[A-Za-z_][\w -]{0,40}[\"'”’]?\s{0,30}[:：]"
_AFTER_MEMBER = rf"\s*(?:[}}\]]|\Z|[,，]\s*(?:[}}\]]|\Z|{_KEY_FOLLOWS}))"
_AFTER_ITEM = r"\s*(?:[}\],，]|\Z)"
LOOSE_TEXT = {
    (quote, in_list): re.compile(
        rf"[^{end}\\]*(?:(?:\\.|{end}(?!{_AFTER_ITEM if in_list else _AFTER_MEMBER}))[^{end}\\]*)*", re.DOTALL
    )
    for quote, end in CLOSING.items()
    for in_list in (False, True)
}
ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
ESCAPED = {
    '"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
}  # fmt: skip
ONLY_JSON, ONLY_PYTHON, NEITHER = "JSON", "Python", "neither"
SURROGATE = re.compile("[\ud800-\udfff]")
CONTROL = re.compile(r"[\x00-\x1f]")
STEP_IN_BRACKETS = re.compile(r"\[\s*[\"']step_number[\"']\s{0,30}:")
"""A step that begins with a bracket instead of its brace."""
ENDS_REPLY = re.compile(r"\s*(?:\Z|<|```)")
DOUBTFUL = {
    quote: re.compile(rf"(?<!\\){quote}(?:[\s,;:=|，：；\[\]{{}}]*{quote}|[\w .-]{{1,40}}[\"'“”‘’`]\s*[:：])")
    for quote in CLOSING.values()
}
"""A quote within a text that looks like its end: only delimiters are between two, or it encloses a key."""
UNPAIRED = {
    quote: re.compile(rf"(?<![\\\w]){quote}|(?<!\\){quote}(?!\w)" if quote in "'’" else rf"(?<!\\){quote}")
    for quote in CLOSING.values()
}
"""Quotes that must be in pairs: all but apostrophes within a word."""
ANY_TEXT = re.compile(r"([\"'])(?:[^\"'\\]|\\.|(?!\1)[\"'])*(\1|\\?\Z)", re.DOTALL)


def after_wrong_bracket(text: str, at: int, limit: int, end: str, depth: int) -> int | None:
    """Return where to continue after a closing bracket that is not the expected one.

    The values are the same for every way to correct the bracket, otherwise the result is `None`.

    Args:
        text: The reply.
        at: Position of the bracket.
        limit: End of the part of the reply that is read.
        end: The expected bracket.
        depth: Number of open brackets; 1 in the outermost object.

    Returns:
        The position after it if it replaces the expected one, `None` if the expected one may be missing: then
        the reply may have been cut off and closed.
    """
    blank = BLANK.match(text, at + 1, limit)
    following = text[blank.end() : blank.end() + 1] if blank and blank.end() < limit else ""
    if end == "]":
        # A brace that ends a list: the brace of the object around it must follow.
        return at + 1 if following == "}" else None
    if depth == 1:
        return at + 1 if ENDS_REPLY.match(text, at + 1, limit) else None
    return at + 1 if following and following in ",]" else None


def is_doubtful(content: str, quote: str) -> bool:
    """Return whether a text with quotes that are not escaped may end at one of them."""
    return bool(DOUBTFUL[quote].search(content)) or len(UNPAIRED[quote].findall(content)) % 2 == 1


def unescaped(content: str, languages: set[str]) -> str:
    """Return the text that is written between quotes, and add to `languages` where it can be written so."""
    if CONTROL.search(content):
        languages.add(NEITHER)
    if "\\" not in content:
        return content
    content = ESCAPE.sub(partial(_character, languages), content)
    if SURROGATE.search(content):
        # JSON writes a character of the higher planes as two surrogates.
        content = content.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return content


def _character(languages: set[str], found: re.Match[str]) -> str:
    token = found.group(1)
    if len(token) > 1 and int(token[1:], 16) < 0x110000:
        if token[0] != "u":
            languages.add(ONLY_PYTHON)
        return chr(int(token[1:], 16))
    if token == "'":
        languages.add(ONLY_PYTHON)
    elif token == "/":
        languages.add(ONLY_JSON)
    elif token not in ESCAPED:
        languages.add(NEITHER)
    return ESCAPED.get(token, found.group())
