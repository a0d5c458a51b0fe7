"""Seeded permutation of the numbers below N, with access to any position.

It is a Feistel network over the next power of four, repeated until the number is below N. It needs no list
and no shared generator, so row 40,000 is the same whether or not row 39,999 was requested.
"""

from __future__ import annotations

import hashlib

ROUNDS = 4


class Permutation:
    """Permutation of 0 to size-1, the same for the same key on every machine."""

    def __init__(self, size: int, key: str) -> None:
        if size < 1:
            raise ValueError("the size of a permutation must be at least 1")
        self._size = size
        self._half = max(1, ((size - 1).bit_length() + 1) // 2)
        self._mask = (1 << self._half) - 1
        digest = hashlib.blake2b(key.encode(), digest_size=8 * ROUNDS).digest()
        self._keys = [int.from_bytes(digest[8 * at : 8 * at + 8], "big") for at in range(ROUNDS)]

    def __call__(self, place: int) -> int:
        """Return the number at a position, both from 0 to size-1."""
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
    """Random numbers for the choices of one row, by name: an additional choice does not change others."""

    def __init__(self, key: str) -> None:
        self._key = key

    def number(self, name: str) -> int:
        """Return 64 bits for the choice of this name."""
        digest = hashlib.blake2b(f"{self._key}|{name}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big")

    def share(self, name: str) -> float:
        """Return a number from 0 to below 1."""
        return (self.number(name) >> 11) / (1 << 53)

    def pick(self, name: str, count: int) -> int:
        """Return a number from 0 to count-1."""
        return self.number(name) % count
