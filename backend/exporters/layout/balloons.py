"""Speech balloons in the upper part of a panel's image.

Only text in quotation marks is speech. The text does not tell who speaks, so the tail of a balloon points to
the middle of the image. If the balloons would cover too much of the image, the text stays in the caption.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .pages import INK, TextBlock
from .shapes import WHITE, Box, Point, Shape
from .typesetting import Block, wrap

SAID = re.compile(r"“([^”]+)”|\"([^\"]+)\"|„([^“”]+)[“”]|«([^»]+)»|「([^」]+)」|『([^』]+)』")
"""Quotation marks of the supported languages."""
SPOKEN = "\0"
SENTENCE = re.compile(r"[^.!?。！？]*[.!?。！？]*")
WIDE = re.compile("[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
NARRATED_END = re.compile(r"[,，、]$")
FULL_STOPS = {",": ".", "，": "。", "、": "。"}
"""A final comma in a quote is only needed by narration after it. These full stops replace it."""
FEW_WORDS, FEW_LETTERS = 3, 6
"""A sentence around speech of at most this length only names the speaker."""
MAX_HEIGHT, MAX_WIDTH = 0.42, 0.62
"""Maximum share of the image for the height of all balloons and the width of one."""
TAIL = 0.11
LETTER_SIZES = (1.0, 0.85, 0.72)
ALL = 1_000_000


@dataclass(frozen=True)
class Balloon:
    """One balloon, in pixels from the upper left corner of the image. `size` is the height of its letters."""

    box: Box
    tail: Point
    block: Block
    size: int


def speech(text: str) -> tuple[list[str], str]:
    """Split a text into its spoken parts and the rest, without phrases such as "said the fish"."""
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
    """Return quoted text as shown in a balloon, where no narration follows.

    A comma before "said the fish" becomes a full stop. If the next quote continues the sentence (its first
    letter is lowercase), both become one balloon.
    """
    spoken: list[str] = []
    for words in quoted:
        if spoken and NARRATED_END.search(spoken[-1]) and words[:1].islower():
            spoken[-1] = f"{spoken[-1]} {words}"
        else:
            spoken.append(words)
    return [NARRATED_END.sub(lambda comma: FULL_STOPS[comma.group()], words) for words in spoken]


def balloons(said: list[str], size: tuple[int, int], letters: int) -> list[Balloon] | None:
    """Lay out balloons in an image, alternating left and right.

    Args:
        said: Text of each balloon.
        size: Width and height of the image in pixels.
        letters: Height of the letters in pixels. Smaller letters are used if necessary.

    Returns:
        The balloons, or None if they do not fit.
    """
    for share in LETTER_SIZES:
        found = _placed(said, size, round(letters * share))
        if found and found[-1].box[3] <= size[1] * MAX_HEIGHT:
            return found
    return None


def _placed(said: list[str], size: tuple[int, int], letters: int) -> list[Balloon]:
    width, height = size
    edge, pad, found = round(width * 0.03), _pad(letters), []
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


def _pad(letters: int) -> int:
    return round(letters * 0.8)


def outline_of(balloon: Balloon, left: int, top: int, line: int) -> Shape:
    """Return the outline of a balloon in an image at this position of the page, in pixels."""
    box, tail = balloon.box, (balloon.tail[0] + left, balloon.tail[1] + top)
    placed = box[0] + left, box[1] + top, box[2] + left, box[3] + top
    return Shape(placed, WHITE, INK, line, round=round(balloon.size * 1.3), tail=tail)


def text_of(balloon: Balloon, left: int, top: int) -> TextBlock:
    """Return the text of a balloon in an image at this position of the page, in pixels."""
    pad = _pad(balloon.size)
    x, y = balloon.box[0] + left + pad, balloon.box[1] + top + pad - balloon.size // 6
    return TextBlock(balloon.block, x, y, balloon.size, INK, WHITE)
