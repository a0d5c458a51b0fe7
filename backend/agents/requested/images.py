"""Finds whether a request asks for images, so that a plan without any is requested again.

A missed request costs nothing: its plan is used as it is. So only clear phrases count: a verb at the start of
a sentence ("Draw ..."), "with pictures", a number of images. A request that says "without images" asks for
none. With images in the request, only a verb counts, since the request may be to describe or count them. The
words are in image_words.py.
"""

from __future__ import annotations

import re

from ...types import Request
from . import image_words as words
from .count import MAX_READ, counts_images

SENTENCE = (
    r"(?:^|[.!?:;,\n。！？：；，、]|\b(?:and|then|please|und|dann|bitte|et|puis|y|luego|e|depois|и|затем|"
    r"can you|could you|por favor|пожалуйста)\s|请|請|再|并|並|帮我|幫我|然后|然後)\s{0,9}"
)
"""What is before a verb at the start of a sentence, or of a part of one."""


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def _verbs(table: words.Imaged) -> str:
    return rf"(?:{table.draw})\b|(?:{table.show})\b(?!,?[\s-](?:{table.not_seen}))"


VERBS = _compiled(f"{SENTENCE}(?:{'|'.join(_verbs(table) for table in words.IMAGED)})")
TURKISH_VERBS = _compiled(
    rf"\b(?:{words.IMAGED_TURKISH.draw}|{words.IMAGED_TURKISH.show})\b\s{{0,9}}(?:$|[.!?:;,\n])"
)
UNSPACED_VERBS = _compiled(
    rf"{SENTENCE}(?:{words.IMAGED_UNSPACED.draw}|{words.IMAGED_UNSPACED.show})|그려|描いて"
)
_SPACED = (*words.IMAGED, words.IMAGED_TURKISH)
PHRASES = _compiled(
    rf"\b(?:{'|'.join(table.with_images for table in _SPACED)})\b|{words.IMAGED_UNSPACED.with_images}"
)
WITHOUT = _compiled(
    rf"\b(?:{'|'.join(table.without for table in _SPACED)})\b|{words.IMAGED_UNSPACED.without}"
)


def asks_for_none(text: str) -> bool:
    """Return whether the text of a request says that there are to be no images."""
    return WITHOUT.search(text[:MAX_READ]) is not None


def asks_for_images(request: Request) -> bool:
    """Return whether a request clearly asks for images."""
    text = request.text[:MAX_READ]
    if asks_for_none(text):
        return False
    if any(pattern.search(text) for pattern in (VERBS, TURKISH_VERBS, UNSPACED_VERBS)):
        return True
    return not request.images and (PHRASES.search(text) is not None or counts_images(text))
