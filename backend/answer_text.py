"""Finds the objects in an agent's raw reply: `<think>` and `<answer>` apart, then JSON, Python literal or nearly so.

Decision: exact readers first (json, then ast.literal_eval), json-repair only for what neither can read, and every
object says whether it was repaired and whether it was cut off, so that the meaning of a repaired object is never
taken on trust (answers.py). Scanning is bounded: each character is looked at a fixed number of times.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .errors import AnswerError
from .types import MAX_TEXT

TAG = re.compile(r"<\s*(/?)\s*(think|answer)\s*>", re.IGNORECASE)
# A brace in prose ("the set {a, b}") begins no answer: something like a key must follow it.
OBJECT_START = re.compile(r"\{\s*(?:\"[^\"\n]{0,80}\"|'[^'\n]{0,80}'|[“‘]?[A-Za-z_][\w ]{0,40}[”’]?)\s*:")
AFTER_STRING = re.compile(r"\s*(?:[,:}\]]|$)")
MAX_DEPTH = 40
MAX_ANSWERS = 20
# json-repair takes quadratic time on hostile text (57 s for 100,000 characters); real answers are shorter.
MAX_REPAIR = 16_000


@dataclass(frozen=True)
class FoundObject:
    """One object of a reply. `raw` is its source; `open_depth` counts brackets never closed (0 = whole)."""

    value: dict[str, Any]
    raw: str
    repaired: bool = False
    open_depth: int = 0
    open_string: bool = False


@dataclass(frozen=True)
class SplitReply:
    """A reply taken apart: the reasoning, and the places where an answer may stand."""

    reasoning: str
    places: tuple[str, ...]


def split_reply(text: str) -> SplitReply:
    """Part `<think>` from `<answer>`, either of which may lack its opening or closing tag; raises AnswerError if
    the reply is longer than MAX_TEXT characters or is not Unicode text."""
    if len(text) > MAX_TEXT:
        raise AnswerError(f"The reply has {len(text)} characters; at most {MAX_TEXT} are read.", text[:200])
    if lone := re.search("[\ud800-\udfff]", text):
        raise AnswerError("The reply holds half a character.", text[max(0, lone.start() - 40) : lone.end()])
    tags = [(tag.start(), tag.end(), tag.group(1) + tag.group(2).lower()) for tag in TAG.finditer(text)]
    opened = next((tag for tag in tags if tag[2] == "think"), None)
    closed = next((tag for tag in tags if tag[2] == "/think" and (not opened or tag[0] >= opened[1])), None)
    if closed is not None:
        # The chat templates of thinking models put <think> into the prompt, so the reply may only close it.
        start, begin = (opened[0], opened[1]) if opened else (0, 0)
        return SplitReply(
            _unframe(text[begin : closed[0]]),
            _answer_places(text[:start]) + _answer_places(text[closed[1] :]),
        )
    if opened is not None:
        # What stands in unfinished thoughts is no answer; only an <answer> tag ends them.
        answer = next((tag[0] for tag in tags if tag[0] > opened[0] and tag[2] == "answer"), len(text))
        reasoning = _unframe(text[opened[1] : answer])
        return SplitReply(reasoning, _answer_places(text[: opened[0]]) + _answer_places(text[answer:]))
    return SplitReply("", _answer_places(text))


def find_objects(place: str) -> Iterator[FoundObject]:
    """All objects in a text, in order, whatever stands between them; raises AnswerError where two equal keys of one
    object disagree."""
    position = place.find("{")
    while position >= 0:
        found, position = _object_at(place, position)
        if found is not None:
            yield found
        position = place.find("{", position)


def _unframe(reasoning: str) -> str:
    """Drop the line breaks with which models frame their reasoning (`frame` adds them where needed)."""
    framed = len(reasoning) >= 2 and reasoning[0] == "\n" and reasoning[-1] == "\n"
    return reasoning[1:-1] if framed else reasoning


def frame(reasoning: str) -> str:
    """The reasoning as it must stand between the tags for split_reply to give back exactly this text."""
    return f"\n{reasoning}\n" if reasoning[:1] == "\n" and reasoning[-1:] == "\n" else reasoning


def _answer_places(text: str) -> tuple[str, ...]:
    """What stands in the answer tags, or the whole text if there are none."""
    tags = [tag for tag in TAG.finditer(text) if tag.group(2).lower() == "answer"]
    opening = [tag for tag in tags if not tag.group(1)]
    if len(opening) > MAX_ANSWERS:
        raise AnswerError(f"The reply has {len(opening)} <answer> tags.", text[:200])
    if not opening:
        return (text[: tags[0].start()] if tags else text,)
    places = []
    for tag in opening:
        after = next((other.start() for other in tags if other.start() >= tag.end()), len(text))
        places.append(text[tag.end() : after])
    return tuple(places)


def _object_at(text: str, start: int) -> tuple[FoundObject | None, int]:
    """The object whose brace stands at `start`, if there is one, and where to look on."""
    if not OBJECT_START.match(text, start):
        return None, start + 1
    try:
        value, end = _JSON.raw_decode(text, start)
        return FoundObject(value, text[start:end]), end
    except (ValueError, RecursionError):
        pass
    end, depth, in_string, strings = _extent(text, start)
    raw = text[start:end]
    if not depth:
        try:
            value = _python_literal(raw)
            if isinstance(value, dict):
                return FoundObject(value, raw), end
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            pass
    value = _requoted(text, start, end, strings) or _repair(raw)
    if not isinstance(value, dict):
        raise AnswerError("The answer is not an object that can be read.", raw)
    return FoundObject(value, raw, True, depth, in_string), end


def is_inside_string(raw: str, position: int) -> bool:
    """Whether `position` of an object's source lies inside one of its strings."""
    return bool(open_quote(raw[:position]))


def open_quote(raw: str) -> str:
    """The quote of the string in which the source of an object breaks off; empty where it is outside of strings."""
    _, _, inside, strings = _extent(raw, 0)
    return raw[strings[-1][0] - 1] if inside else ""


def _extent(text: str, start: int) -> tuple[int, int, bool, list[tuple[int, int]]]:
    """Where the object that begins at `start` ends, the brackets left open there, whether a string is, and the
    strings' contents as (begin, end).

    A quote ends a string only before punctuation or the end, since models leave apostrophes unescaped.
    """
    depth, quote, position = 0, "", start
    strings: list[tuple[int, int]] = []
    while position < len(text):
        character = text[position]
        if quote:
            if character == "\\":
                position += 1
            elif character == quote and AFTER_STRING.match(text, position + 1):
                strings[-1] = (strings[-1][0], position)
                quote = ""
        elif character in "\"'":
            quote = character
            strings.append((position + 1, len(text)))
        elif character in "{[":
            depth += 1
            if depth > MAX_DEPTH:
                raise AnswerError(f"The answer is nested more than {MAX_DEPTH} levels deep.", text[start:])
        elif character in "}]":
            depth -= 1
            if depth <= 0:
                return position + 1, 0, False, strings
        position += 1
    return len(text), depth, bool(quote), strings


def _without_conflict(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    value: dict[Any, Any] = {}
    for key, item in pairs:
        if key in value and value[key] != item:
            raise AnswerError(
                f"The answer gives two different values for {key!r}.", f"{value[key]!r}, {item!r}"
            )
        value[key] = item
    return value


_JSON = json.JSONDecoder(object_pairs_hook=_without_conflict)


def _python_literal(source: str) -> object:
    with warnings.catch_warnings():
        # A backslash in a prompt is no reason to print a SyntaxWarning about somebody's string.
        warnings.simplefilter("ignore")
        tree = ast.parse(source, mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            keys = [ast.literal_eval(key) for key in node.keys if key is not None]
            if len(set(keys)) < len(keys):
                _without_conflict(
                    [(key, ast.literal_eval(item)) for key, item in zip(keys, node.values, strict=True)]
                )
    return ast.literal_eval(tree)


def _requoted(text: str, start: int, end: int, strings: list[tuple[int, int]]) -> object:
    """The object with its strings quoted anew, which is all that most unreadable answers need; None if it is not."""
    parts, position = [], start
    for begin, stop in strings:
        parts += [_plain_json(text[position : begin - 1]), '"', _escaped(text[begin:stop]), '"']
        position = stop + 1
    parts.append(_plain_json(text[position:end]))
    try:
        return _JSON.decode("".join(parts))
    except (ValueError, RecursionError):
        return None


def _plain_json(outside: str) -> str:
    """Punctuation and words between strings, without trailing commas and with JSON's words for Python's."""
    words = {"True": "true", "False": "false", "None": "null"}
    outside = re.sub(r"\b(?:True|False|None)\b", lambda word: words[word.group()], outside)
    return re.sub(r",\s*([}\]])", r"\1", outside)


def _escaped(content: str) -> str:
    """A string's content with what JSON wants escaped escaped, and its own escapes kept."""

    def escape(found: re.Match[str]) -> str:
        token = found.group()
        if token.startswith("\\"):
            return (
                token if token[1:2] in '"\\/bfnrtu' else token[1:] if token[1:] == "'" else "\\\\" + token[1:]
            )
        return json.dumps(token)[1:-1]

    return re.sub(r"\\.?|[\"\x00-\x1f]", escape, content, flags=re.DOTALL)


def _repair(raw: str) -> object:
    import json_repair

    if len(raw) > MAX_REPAIR:
        raise AnswerError(f"The answer is damaged and longer than {MAX_REPAIR} characters.", raw)
    try:
        return json_repair.loads(raw, skip_json_loads=True)
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, RecursionError) as error:
        raise AnswerError(f"The answer cannot be read ({type(error).__name__}).", raw) from error
