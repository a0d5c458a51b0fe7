"""Splits an agent's reply into its thoughts, the parts that may contain an answer, and the objects in them.

Quoted text never decides. A tag or brace inside a text of an object that is written strictly is part of that
text. A thought does not contain an answer, and after a thought that is never closed there is none. If the
reply only closes a thought, its prompt had opened it, and everything before is thought (except an answer at
the start of the reply, since an agent that thinks does not start with one). Without an <answer> tag an object
counts only if it is alone: its lines contain nothing else but white space, a code fence, list brackets or
special tokens. An object in a sentence or in a comment is only mentioned. Braces are counted first, and each
character is read a fixed number of times.
"""

from __future__ import annotations

import dataclasses
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..errors import AnswerError
from ..types import MAX_TEXT
from .objects import OBJECT_START, FoundObject, read_object, strict_or_end

OTHER_TAG = re.compile(
    r"(?P<opens>[<\[◁])(?P<bar>\|?)(?P<end>/?)(?P<name>[^\W\d_][\w:.-]{0,40})(?:\s[^<>\[\]\n]{0,120})?\|?[>\]▷]"
)
TOKEN = r"<(?:[|｜][\w▁:]{0,30}[|｜]?|/[\w:.-]{0,30}|[\w:]{0,20}(?:\||sep|eos|bos)|s)>|\[\|\w{1,30}\|\]"
"""Pattern of a special token, or of a closing tag of any name."""
MARK = re.compile(
    r"\w*(?:success|verdict)\w*|(?:\w+[_:])?(?:answer|result|response|solution|conclusion|output|final|s|sep|bos|eos|pad|unk|br|hr|p|img|image|video|audio)"
)
"""Names that never start a thought: answers and verdicts, special tokens, image marks, line breaks."""
THOUGHT = re.compile(r"think|thought|reason|analysis|inner_|scratchpad|reflect")
"""Names in special tokens that begin or end a thought."""
ENDS = re.compile(r"end(?:_|$)|(?:_|^)end|suffix|stop")
FINAL = re.compile(r"\s*final\b")
WITHIN = ("message", "constrain", "content")
"""Special tokens within a thought, between its channel and its text."""
HERE = re.compile("")
MAX_INDENT = 60
TAG = re.compile(r"<\s*(/?)(?:(?<=/)\s*)?(think(?:ing)?|thought|reasoning|answer)\s*>", re.IGNORECASE)
"""The usual names. Those of other model families are found by their form."""
TAG_OR_BRACE = re.compile(rf"\{{|{TAG.pattern}|{OTHER_TAG.pattern}", re.IGNORECASE)
MAX_ANSWERS = 20
MAX_BRACKETS = 5_000
"""Maximum number of opening brackets in a reply; a plan with the maximum number of steps has about 100."""
MAX_BESIDE = 120
"""Maximum length, in characters, of the rest of a line that is checked for whether an object is alone."""
# Special tokens, with the role or channel after them: <|start|>assistant<|channel|>final<|message|>.
BEFORE_ALONE = re.compile(r"(?:<\|?\w{1,30}\|?>(?:\s?\w{1,12}(?=\s?<))?\s?)*(?:```[\w+-]{0,20})?\s*\[?")
CUT_TAG = re.compile(r"</?[a-z]{0,6}$", re.IGNORECASE)
AFTER_ALONE = re.compile(r"[\s\]}.,;]*(?:```)?\s*(?:(?:" + TOKEN + r")\s*)*")
COMMENT_START = re.compile(r"<!--|/\*|\{#")
COMMENT = re.compile(r"<!--.*?(?:-->|\Z)|/\*.*?(?:\*/|\Z)|\{#.*?(?:#\}|\Z)", re.DOTALL)
"""A comment in HTML, a program or a template; one that is not closed lasts to the end."""
BARE_CHANNELS = re.compile(r"\s*analysis\s*(?![a-z:\s])(?:.*?assistantfinal|.*)", re.DOTALL)
"""The thought of a reply with channels from which the server removed the special tokens."""


class OtherTags:
    """The tags with other names in one reply."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._closings: dict[tuple[str, str], list[re.Match[str]]] = {}
        self._special: list[re.Match[str]] = []
        for tag in OTHER_TAG.finditer(text):
            if tag["end"]:
                self._closings.setdefault(_kind(tag), []).append(tag)
            if _is_special(tag) and tag["name"].lower() not in WITHIN:
                self._special.append(tag)

    def closing(self, tag: re.Match[str]) -> re.Match[str] | None:
        """Return the next tag that closes this one; `None` if there is none, or if this one is a mark."""
        if tag["end"] or MARK.fullmatch(tag["name"].lower()):
            return None
        is_thought = self._opens_thought(tag)
        found = self._special if is_thought else self._closings.get(_kind(tag), [])
        place = bisect_left(found, tag.end(), key=lambda one: one.start())
        after = found[place] if place < len(found) else None
        if after is not None and is_thought and self._opens_message(after):
            return HERE.match(self._text, after.start())
        return after

    def is_open(self, tag: re.Match[str]) -> bool:
        """Return whether a tag without a closing tag starts a thought: on a new line, not a mark."""
        before = self._text[max(0, tag.start() - MAX_INDENT) : tag.start()].rpartition("\n")[2]
        return self._opens_thought(tag) or (not tag["end"] and _is_tag(tag) and not before.strip())

    def is_end(self, tag: re.Match[str]) -> bool:
        """Return whether a closing tag without an opening one ends a thought that the prompt had opened."""
        name = tag["name"].lower()
        if _is_special(tag) and not tag["end"]:
            is_named = THOUGHT.search(name) is not None and ENDS.search(name) is not None
            return is_named or (name == "channel" and not tag["bar"])
        return bool(tag["end"]) and _is_tag(tag)

    def _opens_thought(self, tag: re.Match[str]) -> bool:
        """Return whether a special token opens a thought."""
        name = tag["name"].lower()
        if not tag["bar"] or tag["opens"] != "<" or tag["end"]:
            return False
        if name == "channel":
            return FINAL.match(self._text, tag.end()) is None
        return THOUGHT.search(name) is not None and ENDS.search(name) is None

    def _opens_message(self, tag: re.Match[str]) -> bool:
        """Return whether a special token opens the next message, and so is not the end of this one."""
        return self._opens_thought(tag) or (tag["name"].lower() in ("channel", "start") and bool(tag["bar"]))


def _is_special(tag: re.Match[str]) -> bool:
    return tag["opens"] == "<" and (tag["bar"] != "" or tag.group().endswith("|>"))


def _is_tag(tag: re.Match[str]) -> bool:
    """Return whether a tag counts without its pair.

    `<name>` does unless it is a mark. `[name]`, `<|name|>` and `◁name▷` do only if the name is think; other
    names in brackets are headings.
    """
    name = tag["name"].lower()
    return name == "think" or (tag["opens"] == "<" and not _is_special(tag) and not MARK.fullmatch(name))


def _kind(tag: re.Match[str]) -> tuple[str, str]:
    return tag["opens"], tag["name"].lower()


@dataclass(frozen=True)
class ReplyPart:
    """A part of a reply, from `begin` to `end`.

    `tagged`: it is inside <answer>. `closed`: a tag ends it. `comments`: places of the comments in `text`.
    """

    text: str = field(repr=False)
    begin: int
    end: int
    tagged: bool = False
    closed: bool = False
    comments: Sequence[tuple[int, int]] = ()

    @property
    def content(self) -> str:
        """Text of the part."""
        return self.text[self.begin : self.end]


@dataclass(frozen=True)
class SplitReply:
    """A reply split into the reasoning, the parts that may contain an answer, and all closed thoughts."""

    reasoning: str
    places: tuple[ReplyPart, ...]
    thoughts: tuple[ReplyPart, ...] = ()


def split_reply(text: str) -> SplitReply:
    """Separate the thoughts from the answers: the <answer> tags, or everything else if there are none.

    Raises:
        AnswerError: The reply is longer than `MAX_TEXT` characters, is not Unicode text, or has too many
            brackets or answers.
    """
    if len(text) > MAX_TEXT:
        raise AnswerError(f"The reply has {len(text)} characters; the maximum is {MAX_TEXT}.", text[:200])
    if lone := re.search("[\ud800-\udfff]", text):
        raise AnswerError(
            "The reply contains half a character.", text[max(0, lone.start() - 40) : lone.end()]
        )
    if text.count("{") + text.count("[") > MAX_BRACKETS:
        raise AnswerError(f"The reply has more than {MAX_BRACKETS} brackets.", text[:200])
    return _Splitter(text).split()


def find_objects(place: ReplyPart) -> Iterator[FoundObject]:
    """Yield all objects in a part, in order, each with whether it is alone.

    Raises:
        AnswerError: An object cannot be parsed, or has equal keys with different values.
    """
    text, floor = place.text, place.begin
    position = text.find("{", floor, place.end)
    while position >= 0:
        if OBJECT_START.match(text, position):
            found = read_object(text, position, place.end, place.closed)
            alone = _begins_line(text, position, floor) and _ends_line(text, found.end, place.end)
            at = bisect_right(place.comments, (position, len(text))) - 1
            alone = alone and not (at >= 0 and position < place.comments[at][1])
            yield dataclasses.replace(found, alone=alone)
            position = floor = max(found.end, position + 1)
        else:
            position += 1
        position = text.find("{", position, place.end)


def _comments(text: str, thoughts: Sequence[ReplyPart]) -> list[tuple[int, int]]:
    """Return the places of the comments in a reply. One that begins in a thought ends with it."""
    found: list[tuple[int, int]] = []
    ordered = sorted((one.begin, one.end) for one in thoughts)
    at = 0
    while start := COMMENT_START.search(text, at):
        within = bisect_right(ordered, (start.start(), len(text))) - 1
        in_thought = within >= 0 and start.start() < ordered[within][1]
        comment = COMMENT.match(text, start.start(), ordered[within][1] if in_thought else len(text))
        at = comment.end() if comment else start.end()
        found.append((start.start(), at))
    return found


def frame(reasoning: str) -> str:
    """Return the reasoning as it must be written between the tags for `split_reply` to return this text."""
    return f"\n{reasoning}\n" if reasoning[:1] == "\n" and reasoning[-1:] == "\n" else reasoning


def is_usual(tag: re.Match[str]) -> bool:
    """Return whether a tag has one of the usual names (`TAG`)."""
    return tag.group(2) is not None


def tag_name(tag: re.Match[str]) -> str:
    """Return `answer` or `think` for a tag of any usual name, with a slash before it for a closing tag."""
    return tag.group(1) + ("answer" if tag.group(2).lower() == "answer" else "think")


class _Splitter:
    """Reads a reply from tag to tag."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._wasted = 0
        self._answers: list[ReplyPart] = []
        self._outside: list[ReplyPart] = []
        self._thoughts: list[ReplyPart] = []
        self._others = OtherTags(text)
        self._drafts: list[ReplyPart] = []
        self._first_answer_end = 0
        self._reasoning: str | None = None

    def split(self) -> SplitReply:
        """Split the reply."""
        text, position, outside_from = self._text, 0, 0
        begins_with: str | None = None
        if bare := BARE_CHANNELS.match(text):
            self._drafts.append(ReplyPart(text, 0, bare.end()))
            position = outside_from = bare.end()
        while tag := self._tag_after(position):
            name, position = self._name(tag), tag.end()
            if not name:
                continue
            if begins_with is None and is_usual(tag):
                begins_with = "" if text[: tag.start()].strip() else name
            self._add_outside(outside_from, tag.start())
            if name == "answer":
                position = self._answer(tag.end())
            elif name == "think":
                closing = self._closing_thought(tag)
                if closing is None:
                    if self._reasoning is None:
                        self._reasoning = text[tag.end() :]
                    outside_from = len(text)
                    break
                position = closing.end()
                if is_usual(tag):
                    self._thought(tag.end(), closing.start(), begins_with or "")
                else:
                    self._drafts.append(ReplyPart(text, tag.end(), closing.start()))
            elif name == "/think" and self._reasoning is None:
                self._thought(None, tag.start(), begins_with or "")
            outside_from = position
        self._add_outside(outside_from, len(text), closed=False)
        if self._reasoning is None and self._drafts:
            self._reasoning = self._drafts[0].content
        thoughts = (*self._thoughts, *self._drafts)
        comments = _comments(text, thoughts)
        places = (dataclasses.replace(one, comments=comments) for one in self._answers or self._outside)
        return SplitReply(_unframed(self._reasoning or ""), tuple(places), thoughts)

    def _name(self, tag: re.Match[str]) -> str:
        """Return the kind of a tag as `tag_name` does; empty for a mark within the text."""
        if is_usual(tag):
            return tag_name(tag)
        if self._others.closing(tag) is not None or self._others.is_open(tag):
            return "think"
        return "/think" if self._others.is_end(tag) else ""

    def _thought(self, begin: int | None, end: int, begins_with: str) -> None:
        """Add a closed thought.

        `begin` `None` means that the prompt had opened it, so that all before is thought, unless the reply
        starts with another tag.
        """
        if self._reasoning is None:
            if begins_with == "answer" and begin is None:
                begin = self._first_answer_end
                del self._answers[1:]
            elif not begins_with and begin is None:
                self._answers.clear()
                self._outside.clear()
            self._reasoning = self._text[begin or 0 : end]
        self._thoughts.append(ReplyPart(self._text, begin or 0, end))

    def _answer(self, begin: int) -> int:
        """Add the content of an <answer>, up to the next tag, and return where to continue."""
        if len(self._answers) == MAX_ANSWERS:
            raise AnswerError(f"The reply has more than {MAX_ANSWERS} <answer> tags.", self._text[:200])
        after = self._tag_after(begin)
        while after is not None and not is_usual(after):
            closing = self._others.closing(after)
            if closing is not None and "{" in self._text[after.end() : closing.start()]:
                raise AnswerError(
                    "An answer is inside other tags.", self._text[after.start() : closing.end()]
                )
            after = self._tag_after(after.end())
        end = after.start() if after else len(self._text)
        self._answers.append(ReplyPart(self._text, begin, end, tagged=True, closed=after is not None))
        if after is not None and after.group(1) and after.group(2).lower() == "answer":
            end = after.end()
        if len(self._answers) == 1:
            self._first_answer_end = end
        return end

    def _add_outside(self, begin: int, end: int, closed: bool = True) -> None:
        if begin < end:
            self._outside.append(ReplyPart(self._text, begin, end, closed=closed))

    def _closing_thought(self, opening: re.Match[str]) -> re.Match[str] | None:
        if not is_usual(opening):
            return self._others.closing(opening)
        for tag in TAG.finditer(self._text, opening.end()):
            if tag.group(1) and tag.group(2).lower() == opening.group(2).lower():
                return tag
        return None

    def _tag_after(self, position: int) -> re.Match[str] | None:
        """Return the next tag that is not inside an object that is written strictly."""
        while found := TAG_OR_BRACE.search(self._text, position):
            if found.group() != "{":
                return found
            position = found.end()
            if OBJECT_START.match(self._text, found.start()):
                strict, end = strict_or_end(self._text, found.start())
                if strict is not None:
                    position = end
                else:
                    self._waste(end - found.start())
        return None

    def _waste(self, characters: int) -> None:
        self._wasted += characters
        if self._wasted > 4 * MAX_TEXT:
            raise AnswerError("The reply contains too many objects that cannot be parsed.", self._text[:200])


def _begins_line(text: str, position: int, floor: int) -> bool:
    """Return whether only a fence or a list bracket comes before a position in its line (or part)."""
    begin = max(floor, position - MAX_BESIDE)
    before = text[begin:position]
    if "\n" not in before and begin > floor:
        return False
    return BEFORE_ALONE.fullmatch(before.rpartition("\n")[2].strip()) is not None


def _ends_line(text: str, position: int, limit: int) -> bool:
    """Return whether nothing significant is between a position and the end of the line (or part)."""
    after = text[position : min(limit, position + MAX_BESIDE)]
    if "\n" not in after and position + MAX_BESIDE < limit:
        return False
    after = after.partition("\n")[0]
    if limit == len(text):
        # If a reply is cut off, the tag that ends its answer may be too.
        after = CUT_TAG.sub("", after)
    return AFTER_ALONE.fullmatch(after.strip()) is not None


def _unframed(reasoning: str) -> str:
    """Remove the line breaks with which models frame their reasoning (`frame` adds them where needed)."""
    framed = len(reasoning) >= 2 and reasoning[0] == "\n" and reasoning[-1] == "\n"
    return reasoning[1:-1] if framed else reasoning
