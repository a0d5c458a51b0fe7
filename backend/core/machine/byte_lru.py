"""A least-recently-used cache with a budget in bytes.

The budget counts bytes, not entries, because one result can be a thousand times as large as another. A result
larger than the whole budget is not cached. The cache is not thread-safe: its owner holds a lock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


class ByteLRU(Generic[Key, Result]):
    """Caches results by key and evicts the least recently used ones.

    Args:
        budget: Maximum total size in bytes. 0 caches nothing.
        size_of: Returns the size of a result in bytes.
    """

    def __init__(self, budget: int, size_of: Callable[[Result], int]) -> None:
        self.budget = budget
        self._size_of = size_of
        self._entries: OrderedDict[Key, tuple[Result, int]] = OrderedDict()
        self.bytes = 0

    def get(self, key: Key) -> Result | None:
        """Return the cached result and mark it as used, or return None."""
        found = self._entries.get(key)
        if found is None:
            return None
        self._entries.move_to_end(key)
        return found[0]

    def put(self, key: Key, result: Result) -> None:
        """Cache a result, then evict the least recently used results until all fit into the budget."""
        size = self._size_of(result)
        if key in self._entries:
            self.bytes -= self._entries.pop(key)[1]
        if size > self.budget:
            return
        self._entries[key] = (result, size)
        self.bytes += size
        while self.bytes > self.budget:
            _, (_, freed) = self._entries.popitem(last=False)
            self.bytes -= freed

    def __len__(self) -> int:
        return len(self._entries)
