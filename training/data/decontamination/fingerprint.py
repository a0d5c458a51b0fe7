"""Fingerprints of texts and images: numbers that identify copies without containing the original.

Texts are compared only by their words, since copies differ first in case, punctuation and line breaks.
Chinese and Japanese characters count as words, as they are not separated by spaces. Whole texts are compared
by their words and pairs of words: triples miss a short prompt with one changed word, and single words confuse
all recipes.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from ....backend.machine.libraries import require

GRAM = 8
"""Length of a run of words that two texts share only if one is a copy."""
MIN_GRAM = 5
"""A prompt with fewer words than GRAM, but at least this many, is searched for as a whole in other texts."""
PERMUTATIONS = 128
FLAT = 4.0
"""Standard deviation of gray values below which an image has nothing recognizable."""
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+")
# fmt: off
_COMMON = frozenset((
    "a", "an", "the", "of", "in", "on", "at", "to", "for", "and", "or", "with", "by", "from", "as",
    "is", "are", "be", "it", "its", "this", "that", "these", "those", "i", "me", "my", "you", "your",
    "we", "our", "please", "show", "draw", "make", "create", "generate", "write", "give", "image",
    "images", "picture", "pictures", "step", "steps", "how", "what", "each", "one", "then", "into",
))
# fmt: on


def words_of(text: str) -> list[str]:
    """Return the words of a text in normalized form."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def number_of(words: Sequence[str]) -> int:
    """Return 64 bits that identify a run of words, as a signed integer for SQLite."""
    digest = hashlib.blake2b("\0".join(words).encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def grams_of(words: Sequence[str], length: int = GRAM) -> set[int]:
    """Return the numbers of all runs of `length` words; empty if there are fewer words."""
    return {number_of(words[at : at + length]) for at in range(len(words) - length + 1)}


def shingles_of(words: Sequence[str]) -> set[str]:
    """Return the features for comparing whole texts: pairs of words, and single words that carry meaning."""
    single = {word for word in words if word not in _COMMON}
    return single | {f"{one} {two}" for one, two in pairwise(words)}


def signature_of(words: Sequence[str]) -> np.ndarray | None:
    """Return the MinHash of a text, `(PERMUTATIONS,)` uint32, or None without words.

    Raises:
        SettingsError: datasketch is not installed.
    """
    shingles = sorted(shingles_of(words))
    if not shingles:
        return None
    empty = _empty_signature().copy()
    empty.update_batch([shingle.encode("utf-8", "replace") for shingle in shingles])
    return np.asarray(empty.hashvalues, dtype=np.uint32)


def likeness(signature: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Estimate the Jaccard similarity of a signature to others.

    Args:
        signature: MinHash, `(PERMUTATIONS,)`.
        others: MinHashes, `(n, PERMUTATIONS)`.

    Returns:
        Similarities, `(n,)`, 0 to 1.
    """
    return (others == signature).mean(axis=1)


def hash32(data: bytes) -> int:
    """Return 32 bits that are the same on every machine and in every version."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=4).digest(), "big")


def image_number(image: Any) -> int | None:
    """Return the 64-bit perceptual hash of a PIL image, signed, or None if nothing is recognizable.

    Raises:
        SettingsError: imagehash is not installed.
    """
    require("imagehash")
    import imagehash

    grey = image.convert("L")
    small = np.asarray(grey.resize((32, 32)), dtype=np.float64)
    if small.std() < FLAT:
        return None
    bits = np.asarray(imagehash.phash(grey).hash, dtype=np.uint8)
    return int.from_bytes(np.packbits(bits.ravel()).tobytes(), "big", signed=True)


def bits_apart(number: int, others: np.ndarray) -> np.ndarray:
    """Return the Hamming distances, `(n,)` from 0 to 64, of a 64-bit number to others, `(n,)` int64."""
    different = (others ^ np.int64(number)).view(np.uint8).reshape(len(others), 8)
    return np.unpackbits(different, axis=1).sum(axis=1)


def joined(texts: Iterable[str]) -> list[str]:
    """Return the words of several texts that belong together."""
    return [word for text in texts for word in words_of(text)]


@lru_cache(maxsize=1)
def _empty_signature() -> Any:
    require("datasketch")
    from datasketch import MinHash

    return MinHash(num_perm=PERMUTATIONS, seed=1, hashfunc=hash32, scheme="affine32")
