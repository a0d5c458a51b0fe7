"""Counts the bytes of tensors that a computation keeps alive at once, on a CPU or torch's meta device.

The memory that a GPU allocator would need follows from which tensors live at the same time. This can be
counted without a GPU: new storages of every operation are added, freed ones are subtracted. On the meta
device models of any size take seconds. Attention is counted like a fused kernel (its result, not the matrix
of scores). Workspaces inside kernels are not seen, so a real peak is slightly higher.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """Counts while it is active.

    `peak` is the maximum number of live bytes, without `known` tensors (weights).
    """

    def __init__(self, known: Iterable[torch.Tensor] = ()) -> None:
        super().__init__()
        self._known = {one.untyped_storage()._cdata for one in known}
        self._alive: dict[int, tuple[StorageWeakRef, int]] = {}
        self.peak = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for one in tree_leaves(result):
            if isinstance(one, torch.Tensor):
                self._add(one)
        self.peak = max(self.peak, self.now())
        return result

    def now(self) -> int:
        """Return the bytes alive now."""
        for key in [key for key, (reference, _) in self._alive.items() if reference.expired()]:
            del self._alive[key]
        return sum(size for _, size in self._alive.values())

    def _add(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._known:
            self._alive[storage._cdata] = StorageWeakRef(storage), storage.nbytes()


class _FusedAttention(TorchFunctionMode):
    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.nn.functional.scaled_dot_product_attention:
            named = dict(zip(("query", "key", "value"), args, strict=False)) | (kwargs or {})
            query, value = named["query"], named["value"]
            return query.new_empty((*query.shape[:-1], value.shape[-1]))
        return func(*args, **(kwargs or {}))


@contextmanager
def live_bytes(*modules: torch.nn.Module, fused: bool = False) -> Iterator[LiveBytes]:
    """Count without the weights of `modules`; `fused` replaces attention by an empty result of its size."""
    known = [one for module in modules for one in (*module.parameters(), *module.buffers())]
    with torch.no_grad(), LiveBytes(known) as count:
        if not fused:
            yield count
            return
        with _FusedAttention():
            yield count


def peak_on_meta(build: Callable[[], Any], call: Callable[[Any], object], dtype: torch.dtype) -> int:
    """Return the peak bytes, without weights, when `call` uses what `build` returns, on the meta device."""
    with torch.device("meta"):
        module = build().to(dtype).eval()
        with live_bytes(module, fused=True) as count:
            call(module)
    return count.peak
