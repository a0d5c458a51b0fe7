"""Removes duplicates of requests: equal text, equal content, and near copies.

Near copies are only searched within a sub-category. Sub-categories do not share templates, so nothing is
missed, and a changed bank leaves other sub-categories as they were. Candidates of MinHash are checked
exactly, so that no row is dropped because of a hash collision.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any, Literal

from ....backend.machine.libraries import require

NEAR = 0.7
"""Jaccard similarity of word triples. Prompts of 16 words that differ in one have 0.56, of 24 words 0.76."""
PERMUTATIONS = 128
BANDS = (25, 5)
"""Bands and rows per band: 99 % of the pairs with a similarity of NEAR become candidates."""
Why = Literal["equal text", "equal content", "near copy"]


def triples(normal: str) -> frozenset[str]:
    """Return all runs of three words of a normalized text, or the text itself if it has fewer words."""
    words = normal.split()
    if len(words) < 3:
        return frozenset((normal,))
    runs = zip(words, islice(words, 1, None), islice(words, 2, None), strict=False)
    return frozenset(" ".join(run) for run in runs)


def likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the Jaccard similarity, 0 to 1."""
    common = len(one & other)
    return common / (len(one) + len(other) - common)


@dataclass
class Rings:
    """Duplicate checks of one sub-category; up to `variants` rows may have the same content."""

    variants: int
    _texts: set[str] = field(default_factory=set)
    _contents: Counter[str] = field(default_factory=Counter)
    _kept: list[str] = field(default_factory=list)
    _near: Any = None

    def refused(self, normal: str, content: str) -> Why | None:
        """Return why a row is dropped, or None and remember it.

        Raises:
            SettingsError: datasketch is not installed.
        """
        if normal in self._texts:
            return "equal text"
        if self._contents[content] >= self.variants:
            return "equal content"
        if self._near is None:
            self._near = _index()
        runs = triples(normal)
        signature = _empty().copy()
        signature.update_batch([run.encode() for run in sorted(runs)])
        for other in self._near.query(signature):
            if likeness(runs, triples(self._kept[other])) >= NEAR:
                return "near copy"
        self._near.insert(len(self._kept), signature, check_duplication=False)
        self._kept.append(normal)
        self._texts.add(normal)
        self._contents[content] += 1
        return None


def _index() -> Any:
    require("datasketch")
    from datasketch import MinHashLSH

    return MinHashLSH(num_perm=PERMUTATIONS, params=BANDS)


@lru_cache(maxsize=1)
def _empty() -> Any:
    require("datasketch")
    import zlib

    from datasketch import MinHash

    return MinHash(num_perm=PERMUTATIONS, seed=1, hashfunc=zlib.crc32, scheme="affine32")
