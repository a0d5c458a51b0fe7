"""Contents of the guard's index: a benchmark's items, their fingerprints, the added files, and matches.

An item is reduced to numbers when it is read, one at a time, so that a benchmark of any size fits in memory
and its texts are discarded before anything is written.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from ....backend.pictures import Picture
from .fingerprint import GRAM, MIN_GRAM, grams_of, image_number, number_of, signature_of, words_of

How = Literal["same words", "similar text", "same title", "same id", "similar image"]


@dataclass(frozen=True)
class BenchmarkMatch:
    """Match of a row with a benchmark; `detail` is a figure for reports."""

    benchmark: str
    how: How
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.benchmark}: {self.how}{f' ({self.detail})' if self.detail else ''}"


@dataclass(frozen=True)
class IndexedItem:
    """An item of a benchmark; `texts` are whole prompts, `ids` are given only if they are unique names."""

    texts: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    images: tuple[Picture, ...] = ()


@dataclass(frozen=True)
class IndexedFile:
    """An added file: its benchmark, and the numbers of indexed items and images."""

    benchmark: str
    items: int
    images: int


@dataclass
class IndexContents:
    """Fingerprints of one file before they are written."""

    grams: Counter[tuple[int, int]] = field(default_factory=Counter)
    wholes: set[int] = field(default_factory=set)
    ids: set[int] = field(default_factory=set)
    signatures: list[bytes] = field(default_factory=list)
    images: list[int] = field(default_factory=list)
    items: int = 0

    def take(self, item: IndexedItem) -> None:
        """Add an item's fingerprints."""
        found: set[tuple[int, int]] = set()
        for text in item.texts:
            words = words_of(text)
            found |= {(gram, GRAM) for gram in grams_of(words)}
            if MIN_GRAM <= len(words) < GRAM:
                found.add((number_of(words), len(words)))
            signature = signature_of(words)
            if signature is not None:
                self.signatures.append(signature.tobytes())
        self.grams.update(found)
        self.wholes |= {number_of(words) for words in map(words_of, (*item.texts, *item.titles)) if words}
        self.ids |= {number_of([one]) for one in item.ids}
        self.images += [number for image in item.images if (number := image_number(image.image)) is not None]
        self.items += 1
