"""What the guard's index is made of: a benchmark's item, the numbers that are kept of it, a file that was
added, and what a row turns out to have in common with one.

Decision: an item is taken apart into numbers as it is read, one at a time, so that a benchmark of any size
fits in memory and its words are gone before anything is written.
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
    """What a row has in common with a benchmark, and with which; `detail` is a number for a report."""

    benchmark: str
    how: How
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.benchmark}: {self.how}{f' ({self.detail})' if self.detail else ''}"


@dataclass(frozen=True)
class IndexedItem:
    """One item of a benchmark as it is remembered: `texts` are whole prompts, `ids` are remembered only where
    they are names that nothing else has."""

    texts: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    images: tuple[Picture, ...] = ()


@dataclass(frozen=True)
class IndexedFile:
    """A file that was added: which benchmark it is of and how much of it is remembered."""

    benchmark: str
    items: int
    images: int


@dataclass
class IndexContents:
    """The numbers of one file before they are written."""

    grams: Counter[tuple[int, int]] = field(default_factory=Counter)
    wholes: set[int] = field(default_factory=set)
    ids: set[int] = field(default_factory=set)
    signatures: list[bytes] = field(default_factory=list)
    images: list[int] = field(default_factory=list)
    items: int = 0

    def take(self, item: IndexedItem) -> None:
        """Count the item and keep its numbers."""
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
