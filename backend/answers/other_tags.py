"""Finds thoughts between tags of any name, such as `<analysis>` and `</analysis>`.

Model families name their thoughts differently and write them as `<name>`, `[THINK]` or `◁think▷`, so any
name counts. An answer between such tags is a draft and is never used. A tag that starts a line and is never
closed starts a thought that lasts to the end of the reply. Tags that never have a closing tag, such as
`<image>`, are part of the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left

OTHER_TAG = re.compile(
    r"(?P<opens>[<\[◁])(?P<bar>\|?)(?P<end>/?)(?P<name>[^\W\d_][\w:.-]{0,40})(?:\s[^<>\[\]\n]{0,120})?\|?[>\]▷]"
)
MARKS = frozenset(
    ("answer", "s", "bos", "eos", "pad", "unk", "br", "hr", "p", "img", "image", "video", "audio")
)
"""Names that never start a thought: special tokens, image marks, line breaks."""
MAX_INDENT = 60


class OtherTags:
    """The tags with other names in one reply."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._closings: dict[tuple[str, str], list[re.Match[str]]] = {}
        for tag in OTHER_TAG.finditer(text):
            if tag["end"]:
                self._closings.setdefault(_kind(tag), []).append(tag)

    def closing(self, tag: re.Match[str]) -> re.Match[str] | None:
        """Return the next tag that closes this one; `None` if there is none, or if this one is a mark."""
        if tag["end"] or tag["name"].lower() in MARKS:
            return None
        found = self._closings.get(_kind(tag), [])
        place = bisect_left(found, tag.end(), key=lambda one: one.start())
        return found[place] if place < len(found) else None

    def is_open(self, tag: re.Match[str]) -> bool:
        """Return whether a tag without a closing tag starts a thought: on a new line, not in `MARKS`."""
        before = self._text[max(0, tag.start() - MAX_INDENT) : tag.start()].rpartition("\n")[2]
        return not tag["end"] and _is_tag(tag) and not before.strip()

    def is_end(self, tag: re.Match[str]) -> bool:
        """Return whether a closing tag without an opening one ends a thought that the prompt had opened."""
        return bool(tag["end"]) and _is_tag(tag)


def _is_tag(tag: re.Match[str]) -> bool:
    """Return whether a tag counts without its pair.

    `<name>` does unless it is a mark. `[name]`, `<|name|>` and `◁name▷` do only if the name is think; other
    names in brackets are headings.
    """
    name = tag["name"].lower()
    return name == "think" or (tag["opens"] == "<" and not tag["bar"] and name not in MARKS)


def _kind(tag: re.Match[str]) -> tuple[str, str]:
    return tag["opens"], tag["name"].lower()
