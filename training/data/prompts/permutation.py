"""A seeded order of the numbers below N in which any place can be asked for by itself.

Decision: a Feistel network over the next power of four, walked on until the number is below N: no list of N,
no generator that is shared, so row 40,000 is the same whether or not row 39,999 was asked for.
"""

from __future__ import annotations

import hashlib

ROUNDS = 4


class Permutation:
    """A one-to-one map of 0..size-1 to itself, the same for the same key on every machine."""

    def __init__(self, size: int, key: str) -> None:
        if size < 1:
            raise ValueError("a permutation of nothing")
        self._size = size
        self._half = max(1, ((size - 1).bit_length() + 1) // 2)
        self._mask = (1 << self._half) - 1
        digest = hashlib.blake2b(key.encode(), digest_size=8 * ROUNDS).digest()
        self._keys = [int.from_bytes(digest[8 * at : 8 * at + 8], "big") for at in range(ROUNDS)]

    def __call__(self, place: int) -> int:
        """The number at a place, both in 0..size-1."""
        number = place
        while True:
            number = self._once(number)
            if number < self._size:
                return number

    def _once(self, number: int) -> int:
        left, right = number >> self._half, number & self._mask
        for key in self._keys:
            mixed = (right + key) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
            mixed ^= mixed >> 29
            mixed = mixed * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
            left, right = right, left ^ (mixed >> 32 & self._mask)
        return left << self._half | right


class Draws:
    """Numbers for the choices of one row, each by its name: a choice that is added changes no other."""

    def __init__(self, key: str) -> None:
        self._key = key

    def number(self, name: str) -> int:
        """64 bits for the choice of that name."""
        digest = hashlib.blake2b(f"{self._key}|{name}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big")

    def share(self, name: str) -> float:
        """In 0 to 1, without 1."""
        return (self.number(name) >> 11) / (1 << 53)

    def pick(self, name: str, count: int) -> int:
        """One of 0..count-1."""
        return self.number(name) % count
