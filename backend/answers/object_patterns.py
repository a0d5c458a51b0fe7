"""Regular expressions for the parts of an object in an agent's answer.

Every pattern has limited repetition or reads a text once, so parsing takes linear time for any answer.
"""

from __future__ import annotations

import re

# A brace in prose ("the set {a, b}") does not start an answer: something like a key must follow it.
OBJECT_START = re.compile(
    r"\{\s*(?:\"[^\"\n]{0,80}\"|'[^'\n]{0,80}'|[“‘]?[A-Za-z_][\w -]{0,40}[”’]?)\s{0,30}:"
)
KEY = re.compile(
    r"(?:\"((?:[^\"\\\n]|\\.){0,200})\"|'((?:[^'\\\n]|\\.){0,200})'|([“‘]?[A-Za-z_][\w "
    r"-]{0,40}[”’]?))\s{0,30}:"
)
CUT_KEY = re.compile(r"[\"'“‘]?[\w -]{0,80}[\"'”’]?\s*")
BLANK = re.compile(r"\s*")
STRICT_TEXT = {quote: re.compile(rf"[^{quote}\\]*(?:\\.[^{quote}\\]*)*", re.DOTALL) for quote in ('"', "'")}
WORD = re.compile(r"[^,}\]\n]*")
NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,15})?(?:[eE][+-]?\d{1,2})?")
WORDS = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}
NOT_IN_A_WORD = re.compile(r"[\"“”{\[]")
CLOSING = {'"': '"', "'": "'", "“": "”", "‘": "’"}
# What may follow the closing quote of a text. Models do not escape quotes and apostrophes within a text.
_KEY_FOLLOWS = r"[\"'“‘]?[A-Za-z_][\w -]{0,40}[\"'”’]?\s{0,30}:"
_AFTER_MEMBER = rf"\s*(?:[}}\]]|\Z|,\s*(?:[}}\]]|\Z|{_KEY_FOLLOWS}))"
_AFTER_ITEM = r"\s*(?:[}\],]|\Z)"
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
ONLY_JSON, ONLY_PYTHON = "JSON", "Python"
SURROGATE = re.compile("[\ud800-\udfff]")
CONTROL = re.compile(r"[\x00-\x1f]")
ANY_TEXT = re.compile(r"([\"'])(?:[^\"'\\]|\\.|(?!\1)[\"'])*(\1|\\?\Z)", re.DOTALL)
