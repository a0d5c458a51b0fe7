"""What is said in a panel, as speech balloons in the upper part of its picture.

Decision: only words in quotation marks are speech; who says them cannot be known from a picture's text, so a
balloon's tail points to the middle of the picture. Where balloons would cover too much of it, there are none
and the words stay in the caption.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .shapes import Box, Point
from .typesetting import Block, wrap

SAID = re.compile(r"“([^”]+)”|\"([^\"]+)\"|„([^“”]+)[“”]|«([^»]+)»|「([^」]+)」|『([^』]+)』")
"""Quotation marks of the languages that stories are told in."""
SPOKEN = "\0"
SENTENCE = re.compile(r"[^.!?。！？]*[.!?。！？]*")
WIDE = re.compile("[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
NARRATED_END = re.compile(r"[,，、]$")
FULL_STOPS = {",": ".", "，": "。", "、": "。"}
"""A comma at the end of a quote, which only narration after it needs, and the full stop that replaces it."""
FEW_WORDS, FEW_LETTERS = 3, 6
"""A sentence around speech that is no longer only says who speaks."""
MAX_HEIGHT, MAX_WIDTH = 0.42, 0.62
"""Share of the picture that all balloons, or the widest of them, may take."""
TAIL = 0.11
LETTER_SIZES = (1.0, 0.85, 0.72)
ALL = 1_000_000


@dataclass(frozen=True)
class Balloon:
    """One balloon in pixels from the picture's upper left corner; `size` is the height of its letters."""

    box: Box
    tail: Point
    block: Block
    size: int


def speech(text: str) -> tuple[list[str], str]:
    """What is said in a text, and the text without it and without its "said the fish"."""
    said = _as_spoken(
        [next(part for part in found.groups() if part).strip() for found in SAID.finditer(text)]
    )
    kept = []
    for sentence in SENTENCE.findall(SAID.sub(SPOKEN, text)):
        plain = sentence.replace(SPOKEN, "" if WIDE.search(sentence) else " ")
        plain = " ".join(plain.split()).lstrip(" ,;:，：")
        short = len(plain) <= FEW_LETTERS if WIDE.search(plain) else len(plain.split()) <= FEW_WORDS
        if SPOKEN not in sentence or not short:
            kept.append(re.sub(r"\s+([.,;:!?。，：])", r"\1", plain).rstrip(" :：,，"))
    return said, " ".join(one for one in kept if any(letter.isalnum() for letter in one))


def _as_spoken(quoted: list[str]) -> list[str]:
    """Quoted words as a balloon has them, where no narration follows.

    A comma before "said the fish" ends the sentence. If the next quote continues the sentence (its first
    letter is lowercase), both are one balloon.
    """
    spoken: list[str] = []
    for words in quoted:
        if spoken and NARRATED_END.search(spoken[-1]) and words[:1].islower():
            spoken[-1] = f"{spoken[-1]} {words}"
        else:
            spoken.append(words)
    return [NARRATED_END.sub(lambda comma: FULL_STOPS[comma.group()], words) for words in spoken]


def balloons(said: list[str], size: tuple[int, int], letters: int) -> list[Balloon] | None:
    """Balloons for these words in a picture of `size` pixels, to the left and the right in turns; None if
    there is no room for them."""
    for share in LETTER_SIZES:
        found = _placed(said, size, round(letters * share))
        if found and found[-1].box[3] <= size[1] * MAX_HEIGHT:
            return found
    return None


def _placed(said: list[str], size: tuple[int, int], letters: int) -> list[Balloon]:
    width, height = size
    edge, pad, found = round(width * 0.03), round(letters * 0.8), []
    top = round(height * 0.03)
    for number, words in enumerate(said):
        block = wrap(words, letters, max(letters, round(width * MAX_WIDTH) - 2 * pad), ALL, ALL)
        widest = round(max(block.font.getlength(line) for line in block.lines)) if block.lines else 0
        left = edge if number % 2 == 0 else width - edge - widest - 2 * pad
        box = left, top, left + widest + 2 * pad, top + block.height + 2 * pad - letters // 3
        middle = (box[0] + box[2]) / 2
        tail = middle + (width / 2 - middle) * 0.35, box[3] + height * TAIL
        found.append(Balloon(box, tail, block, letters))
        top = box[3] + round(height * 0.03)
    return found
