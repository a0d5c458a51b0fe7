"""Parses one object of an agent's answer: JSON or a Python literal, with the usual mistakes of models.

The parser is written by hand and reads every character a fixed number of times. A library that repairs
anything cannot report what it guessed, and takes quadratic time. An object is first read strictly: every text
is quoted and escaped as in JSON or Python. Only such an object may contain tags or answers in its texts,
since only there it is clear what is quoted. Otherwise it is read again with the mistakes of models (quotes
within a text, names without quotes, commas at an end, brackets that are never closed) and marked `repaired`,
so that its content is not trusted blindly.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..errors import AnswerError

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
STEP_NUMBER = re.compile(r"\s*(?:step|第)?[\s_#-]{0,3}(\d{1,4})\s*[步.:)]?\s*", re.IGNORECASE)
"""A step number, also written as `Step 3` or `3.`."""
REASONING = "reasoning"
"""Property of the reasoning in an answer that is only JSON."""
PLAN = "execution_plan"
"""The only key that may be there several times, if its lists of steps continue each other."""
MAX_DEPTH = 40
MAX_VALUES = 10_000
"""Maximum number of values in one object; a plan with the maximum number of steps has about 600."""


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


@dataclass(frozen=True)
class FoundObject:
    """An object in a reply.

    Attributes:
        value: The object.
        text: The whole reply.
        start: Where its source starts in the reply.
        end: Where its source ends.
        places: Where the value of each key of the outermost object starts (for a text: after its quote).
        repaired: Whether it is neither JSON nor a Python literal.
        strict: Whether it is clear what is quoted in it.
        open_depth: Number of brackets that are never closed; 0 if it is complete.
        open_string: Whether it breaks off inside a text.
        closed: Whether a tag ends it, so that only its last bracket can be missing.
        uncertain: Whether a text in it may have swallowed what follows it: quotes in it are not escaped and
            not in pairs, or it has no quotes.
        alone: Whether it is not part of a sentence (reply_text.py).
    """

    value: dict[str, Any]
    text: str = field(repr=False)
    start: int
    end: int
    places: dict[str, int]
    repaired: bool = False
    strict: bool = False
    open_depth: int = 0
    open_string: bool = False
    closed: bool = False
    uncertain: bool = False
    alone: bool = True

    @property
    def reasoning(self) -> str:
        """Reasoning that the object contains as a property; empty if there is none."""
        reasoning = self.value.get(REASONING)
        return reasoning.strip() if isinstance(reasoning, str) else ""

    @property
    def cut_off(self) -> bool:
        """Whether it breaks off where more values could follow, for example further steps of a plan."""
        return self.open_string or self.open_depth > int(self.closed)

    @property
    def raw(self) -> str:
        """Source of the object."""
        return self.text[self.start : self.end]


def open_quote(raw: str) -> str:
    """Return the quote of the text in which an object's source breaks off; empty outside of texts."""
    last = deque(ANY_TEXT.finditer(raw), maxlen=1)
    return last[0].group(1) if last and last[0].group(2) != last[0].group(1) else ""


def step_number(step: object) -> int | None:
    """Return the number of a step, `None` if it has none."""
    number = step.get("step_number") if isinstance(step, dict) else None
    if isinstance(number, str) and (found := STEP_NUMBER.fullmatch(number)):
        return int(found[1])
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def continues(before: Sequence[object], after: Sequence[object]) -> bool:
    """Return whether the steps of `after` count on from the last step of `before`, one by one.

    Another plan would start again, so steps that count on belong to the same plan.
    """
    last = step_number(before[-1]) if before else None
    return (
        last is not None
        and len(after) > 0
        and all(step_number(step) == last + place for place, step in enumerate(after, 1))
    )


def read_object(text: str, start: int, limit: int, closed: bool = False) -> FoundObject:
    """Return the object whose brace is at `start`.

    Args:
        text: The reply.
        start: Position of the brace.
        limit: Where the object ends at the latest if it is not written strictly.
        closed: Whether a tag ends the object at `limit`, so that a word before it is complete.

    Raises:
        AnswerError: It cannot be parsed.
    """
    reader = _ObjectReader(text, start, len(text), strict=True, closed=False)
    try:
        return reader.read()
    except _NotStrictError:
        pass
    except _EndError:
        if limit == len(text):
            return reader.found()
    return _ObjectReader(text, start, limit, strict=False, closed=closed).read()


def strict_or_end(text: str, start: int) -> tuple[FoundObject | None, int]:
    """Return the object at `start` if it is complete and written strictly, else `None`; and where it ends.

    Raises:
        AnswerError: Two equal keys have different values, or the object is too large.
    """
    reader = _ObjectReader(text, start, len(text), strict=True, closed=False)
    try:
        found = reader.read()
    except _NotStrictError:
        return None, reader.at
    except _EndError:
        return None, len(text)
    return found, found.end


class _NotStrictError(Exception):
    """The object is not written strictly."""


class _EndError(Exception):
    """The text ends within the object."""


class _ObjectReader:
    """Reads one object from its brace to its end."""

    def __init__(self, text: str, start: int, limit: int, strict: bool, closed: bool) -> None:
        self._text, self._start, self._limit = text, start, limit
        self._strict, self._closed = strict, closed
        self.at = start
        self._depth = 0
        self._values = 0
        self._value: dict[str, Any] = {}
        self._open_string = False
        self._uncertain = False
        self._places: dict[str, int] = {}
        self._languages: set[str] = set()

    def read(self) -> FoundObject:
        """Read the object."""
        try:
            self._object(self._value)
        except _EndError:
            if self._strict:
                raise
        return self.found()

    def found(self) -> FoundObject:
        """Return what has been read so far."""
        mixed = len(self._languages) > 1 or NEITHER in self._languages
        return FoundObject(
            value=self._value,
            text=self._text,
            start=self._start,
            end=self._limit if self._depth else self.at,
            places=self._places,
            repaired=mixed or not self._strict or self._depth > 0,
            strict=self._strict,
            open_depth=self._depth,
            open_string=self._open_string,
            closed=self._closed,
            uncertain=self._uncertain,
        )

    def _object(self, value: dict[str, Any]) -> None:
        """Read an object into `value`, so that its content is kept if the text ends."""
        ends = "}]" if self._text[self.at] == "[" else "}"
        self._enter()
        while True:
            if self._is_end(ends):
                return
            key = self._key()
            self._next()
            if self._depth == 1:
                # A quote before a word is not part of the word.
                self._places.setdefault(key, self.at + (self._text[self.at] in CLOSING))
            if self._text[self.at] in "{[":
                before = value.get(key)
                if key in value and not (key == PLAN and isinstance(before, list)):
                    raise AnswerError(f"The answer contains {key!r} twice.", self._around())
                item = self._empty()
                value.setdefault(key, item)
                self._container(item)
                if before is not None:
                    self._join(key, before, item)
            else:
                self._put(value, key, self._scalar(in_list=False))
            self._after_value(ends)

    def _list(self, value: list[Any]) -> None:
        self._enter()
        while True:
            if self._is_end("]"):
                return
            if self._text[self.at] in "{[":
                item = self._empty()
                value.append(item)
                self._container(item)
            else:
                value.append(self._scalar(in_list=True))
            self._after_value("]")

    def _empty(self) -> dict[str, Any] | list[Any]:
        """Return an empty container of the kind that starts here."""
        is_object = self._text[self.at] == "{" or (
            not self._strict and STEP_IN_BRACKETS.match(self._text, self.at, self._limit)
        )
        return {} if is_object else []

    def _container(self, item: Any) -> None:
        if isinstance(item, dict):
            self._object(item)
        else:
            self._list(item)

    def _join(self, key: str, before: list[Any], item: Any) -> None:
        """Add the steps of a plan that are under the same key as the steps before them."""
        if not isinstance(item, list) or not continues(before, item):
            raise AnswerError(f"The answer contains {key!r} twice.", self._around())
        before.extend(item)

    def _put(self, value: dict[str, Any], key: str, item: Any) -> None:
        before = value.get(key, item)
        if before is not item and (before != item or isinstance(before, bool) != isinstance(item, bool)):
            raise AnswerError(
                f"The answer contains two different values for {key!r}.", f"{before!r}, {item!r}"[:400]
            )
        value[key] = item

    def _enter(self) -> None:
        self._depth += 1
        self.at += 1
        if self._depth > MAX_DEPTH:
            raise AnswerError(
                f"The answer is nested more than {MAX_DEPTH} levels deep.", self._text[self._start :]
            )

    def _is_end(self, ends: str) -> bool:
        """Return whether the container ends here, and leave it. The first of `ends` is the right bracket."""
        found = self._next()
        if found in ends:
            self.at += 1
        elif found in "}]" and not self._strict:
            after = after_wrong_bracket(self._text, self.at, self._limit, ends[0], self._depth)
            if after is None:
                self._fail()
            else:
                self.at = after
        else:
            return False
        self._depth -= 1
        return True

    def _next(self) -> str:
        """Return the next character that is not white space."""
        found = BLANK.match(self._text, self.at, self._limit)
        self.at = found.end() if found else self.at
        if self.at >= self._limit:
            raise _EndError
        return self._text[self.at]

    def _after_value(self, ends: str) -> None:
        """Skip the comma after a value. A closing bracket is not skipped."""
        self._values += 1
        if self._values > MAX_VALUES:
            raise AnswerError(f"The answer has more than {MAX_VALUES} values.", self._text[self._start :])
        following = self._next()
        if following == "," or (following == "，" and not self._strict):
            self.at += 1
            following = self._next()
            if following in ends:
                self._languages.add(ONLY_PYTHON)
            elif following in "}]":
                self._fail()
        elif following not in ends and (self._strict or following not in "}]"):
            self._fail()

    def _key(self) -> str:
        found = KEY.match(self._text, self.at, self._limit)
        if found is None:
            rest = CUT_KEY.match(self._text, self.at, self._limit)
            if rest is not None and rest.end() == self._limit:
                raise _EndError
            return self._fail()
        self.at = found.end()
        double, single, bare, colon = found.groups()
        if self._strict and (bare is not None or colon != ":"):
            self._fail()
        if bare is not None:
            return bare.strip("“”‘’ ")
        if single is not None:
            self._languages.add(ONLY_PYTHON)
        key = unescaped(double if single is None else single, self._languages)
        return self._fail() if NOT_IN_A_WORD.search(key) else key

    def _scalar(self, in_list: bool) -> object:
        quote = self._text[self.at]
        if quote in "\"'" or (quote in CLOSING and not self._strict):
            return self._quoted(quote, in_list)
        found = WORD.match(self._text, self.at, self._limit)
        word = found.group() if found else ""
        self.at += len(word)
        if self.at >= self._limit and not self._closed:
            # A word that is cut off may have been the start of another one.
            raise _EndError
        word = word.rstrip()
        if word in WORDS:
            self._languages.add(ONLY_PYTHON if word[0] in "TFN" else ONLY_JSON)
            return WORDS[word]
        if NUMBER.fullmatch(word):
            return int(word) if word.lstrip("-").isdigit() else float(word)
        if self._strict or not word or NOT_IN_A_WORD.search(word):
            self._fail()
        self._uncertain = True
        return word

    def _quoted(self, quote: str, in_list: bool) -> str:
        pattern = STRICT_TEXT[quote] if self._strict else LOOSE_TEXT[quote, in_list]
        found = pattern.match(self._text, self.at + 1, self._limit)
        end = found.end() if found else self.at + 1
        if end >= self._limit or self._text[end] != CLOSING[quote]:
            self._open_string = True
            raise _EndError
        content = self._text[self.at + 1 : end]
        self.at = end + 1
        self._uncertain |= not self._strict and is_doubtful(content, CLOSING[quote])
        if quote == "'":
            self._languages.add(ONLY_PYTHON)
        return unescaped(content, self._languages)

    def _fail(self) -> Any:
        if self._strict:
            raise _NotStrictError
        raise AnswerError("The answer cannot be parsed as an object.", self._around())

    def _around(self) -> str:
        return self._text[max(self._start, self.at - 100) : self.at + 100]
