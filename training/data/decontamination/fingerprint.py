"""What is remembered of a text or an image: numbers from which neither can be read back.

Decisions. A text is compared by its words alone: case, punctuation and line breaks are how a copy differs
from its original first. Chinese and Japanese letters count as words, since nothing stands between them. Whole
texts are compared by their words and pairs of words: triples lose a short prompt with one changed word,
single words mistake every recipe for every other.
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

from ....backend.machine.requirements import require

GRAM = 8
"""Words in a row that two texts have in common only if one was copied."""
MIN_GRAM = 5
"""A prompt of fewer than GRAM words, but at least so many, is looked for as a whole inside other texts."""
PERMUTATIONS = 128
FLAT = 4.0
"""Standard deviation of grey below which an image shows nothing that could be recognised."""
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
    """The words of a text in their normal form."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def number_of(words: Sequence[str]) -> int:
    """64 bits of a run of words, as the signed number that SQLite keeps."""
    digest = hashlib.blake2b("\0".join(words).encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def grams_of(words: Sequence[str], length: int = GRAM) -> set[int]:
    """Numbers of all runs of `length` words; empty if there are fewer."""
    return {number_of(words[at : at + length]) for at in range(len(words) - length + 1)}


def shingles_of(words: Sequence[str]) -> set[str]:
    """What whole texts are compared by: pairs of words, and single words that say what it is about."""
    single = {word for word in words if word not in _COMMON}
    return single | {f"{one} {two}" for one, two in pairwise(words)}


def signature_of(words: Sequence[str]) -> np.ndarray | None:
    """MinHash of a text, (PERMUTATIONS,) uint32; None without words. Raises SettingsError if datasketch is
    not installed."""
    shingles = sorted(shingles_of(words))
    if not shingles:
        return None
    empty = _empty_signature().copy()
    empty.update_batch([shingle.encode("utf-8", "replace") for shingle in shingles])
    return np.asarray(empty.hashvalues, dtype=np.uint32)


def likeness(signature: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Estimated Jaccard likeness of a signature to each of (N, PERMUTATIONS) others, (N,) in 0 to 1."""
    return (others == signature).mean(axis=1)


def hash32(data: bytes) -> int:
    """32 bits that are the same on every machine and in every version."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=4).digest(), "big")


def image_number(image: Any) -> int | None:
    """64-bit perceptual hash of a PIL image, signed; None for one that shows nothing. Raises SettingsError if
    imagehash is not installed."""
    require("imagehash")
    import imagehash

    grey = image.convert("L")
    small = np.asarray(grey.resize((32, 32)), dtype=np.float64)
    if small.std() < FLAT:
        return None
    bits = np.asarray(imagehash.phash(grey).hash, dtype=np.uint8)
    return int.from_bytes(np.packbits(bits.ravel()).tobytes(), "big", signed=True)


def bits_apart(number: int, others: np.ndarray) -> np.ndarray:
    """Hamming distances of a 64-bit number to each of (N,) int64 others, (N,) in 0 to 64."""
    different = (others ^ np.int64(number)).view(np.uint8).reshape(len(others), 8)
    return np.unpackbits(different, axis=1).sum(axis=1)


def joined(texts: Iterable[str]) -> list[str]:
    """Words of several texts that belong together."""
    return [word for text in texts for word in words_of(text)]


@lru_cache(maxsize=1)
def _empty_signature() -> Any:
    require("datasketch")
    from datasketch import MinHash

    return MinHash(num_perm=PERMUTATIONS, seed=1, hashfunc=hash32, scheme="affine32")
