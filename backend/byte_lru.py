"""A cache within a budget of bytes; the least recently used entry is evicted first.

Decision: a budget in bytes and not in entries, since one kind of result may be a thousand times as large as
another. A result larger than the whole budget is not cached at all. The owner's lock, not one in here, guards
it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


class ByteLRU(Generic[Key, Result]):
    """Results by key. `budget`: bytes, 0 caches nothing. `size_of`: bytes that a result takes."""

    def __init__(self, budget: int, size_of: Callable[[Result], int]) -> None:
        self.budget = budget
        self._size_of = size_of
        self._entries: OrderedDict[Key, tuple[Result, int]] = OrderedDict()
        self.bytes = 0

    def get(self, key: Key) -> Result | None:
        """The result under the key, which thereby was used last; None if there is none."""
        found = self._entries.get(key)
        if found is None:
            return None
        self._entries.move_to_end(key)
        return found[0]

    def put(self, key: Key, result: Result) -> None:
        """Cache a result, and evict the least recently used ones until all fit into the budget."""
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

    def clear(self) -> None:
        """Drop all entries."""
        self._entries.clear()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._entries)


def tensor_bytes(value: Any, depth: int = 6) -> int:
    """Bytes of all tensors in a value: a tensor, or containers and plain objects that hold some, nested up to
    `depth`."""
    if hasattr(value, "element_size") and hasattr(value, "nelement"):
        return value.element_size() * value.nelement()
    if isinstance(value, dict):
        parts = list(value.values())
    elif isinstance(value, (list, tuple)):
        parts = list(value)
    else:
        parts = list(vars(value).values()) if hasattr(value, "__dict__") and not callable(value) else []
    return sum(tensor_bytes(part, depth - 1) for part in parts) if depth else 0
