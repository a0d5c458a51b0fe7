"""Finds thoughts between tags of any name, such as `<analysis>`, and between special tokens.

Model families name their thoughts differently and write them as `<name>`, `[THINK]` or `◁think▷`, so any
name counts. An answer between such tags is a draft and is never used. A tag that starts a line and is never
closed starts a thought that lasts to the end of the reply. Tags that never have a closing tag, such as
`<image>`, are part of the text. A special token that opens a thought (`<|START_THINKING|>`,
`<|channel|>analysis`) opens it anywhere, up to the next special token.
"""

from __future__ import annotations

import re
from bisect import bisect_left

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
