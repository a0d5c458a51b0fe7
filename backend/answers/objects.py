"""Parses one object of an agent's answer: JSON or a Python literal, with the usual mistakes of models.

The parser is written by hand and reads every character a fixed number of times. A library that repairs
anything cannot report what it guessed, and takes quadratic time. An object is first read strictly: every text
is quoted and escaped as in JSON or Python. Only such an object may contain tags or answers in its texts,
since only there it is clear what is quoted. Otherwise it is read again with the mistakes of models (quotes
within a text, names without quotes, commas at an end, brackets that are never closed) and marked `repaired`,
so that its content is not trusted blindly.
"""

from __future__ import annotations

from typing import Any

from ..errors import AnswerError
from .found_object import FoundObject, continues
from .object_patterns import (
    BLANK,
    CLOSING,
    CUT_KEY,
    KEY,
    LOOSE_TEXT,
    NEITHER,
    NOT_IN_A_WORD,
    NUMBER,
    ONLY_JSON,
    ONLY_PYTHON,
    STEP_IN_BRACKETS,
    STRICT_TEXT,
    WORD,
    WORDS,
    after_wrong_bracket,
    is_doubtful,
    unescaped,
)

PLAN = "execution_plan"
"""The only key that may be there several times, if its lists of steps continue each other."""
MAX_DEPTH = 40
MAX_VALUES = 10_000
"""Maximum number of values in one object; a plan with the maximum number of steps has about 600."""


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
