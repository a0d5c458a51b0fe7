"""Simulates a GPU for rigs that run in the host's own Python (`host_modules`).

The GPU is the device `cpu:0`: torch computes on it like on any CPU, but it compares unequal to `cpu`. Every
move of a module is recorded, and the free memory is computed from that. So the decisions of the host's memory
manager on a GPU with little memory can be tested on a machine without a GPU.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import host_modules  # noqa: F401 - the host and the pack; first

# isort: split

import comfy.model_management as mm
import torch

from interleave_thinker.nodes.host import memory as ours

CPU, GPU = torch.device("cpu"), torch.device("cpu", 0)
KILO = 1024


class Identities:
    """A weak set of tensors by identity, since tensors compare element by element."""

    def __init__(self) -> None:
        self._held: dict[int, weakref.ref[Any]] = {}

    def add(self, one: Any) -> None:
        key = id(one)
        self._held[key] = weakref.ref(one, lambda _: self._held.pop(key, None))

    def discard(self, one: Any) -> None:
        self._held.pop(id(one), None)

    def __contains__(self, one: Any) -> bool:
        return id(one) in self._held

    def __iter__(self) -> Iterator[Any]:
        return (one for one in [held() for held in list(self._held.values())] if one is not None)


class SimulatedGpu:
    """Records the size of the GPU, the weights on it, and how often an agent was loaded."""

    def __init__(self) -> None:
        self.size = 1 << 40
        self.real_size: int | None = None
        self.weights = Identities()
        self.arrivals = 0

    def used(self) -> int:
        return sum(one.nbytes for one in self.weights)

    def note(self, module: torch.nn.Module, device: torch.device) -> None:
        for one in module.parameters():
            if device != GPU:
                self.weights.discard(one)
            elif one not in self.weights:
                if self.real_size is not None and self.used() + one.nbytes > self.real_size:
                    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 MiB.")
                self.weights.add(one)


gpu = SimulatedGpu()
move = torch.nn.Module.to


def noted_move(module: torch.nn.Module, *args: Any, **kwargs: Any) -> torch.nn.Module:
    target = args[0] if args else kwargs.get("device")
    if isinstance(target, (torch.device, str)):
        gpu.note(module, torch.device(target))
    return move(module, *args, **kwargs)


def counted_load(patcher: Any, *args: Any, **kwargs: Any) -> Any:
    gpu.arrivals += 1
    return load(patcher, *args, **kwargs)


load = ours._WholePatcher.load
ours._WholePatcher.load = counted_load
torch.nn.Module.to = noted_move
mm.get_torch_device = lambda: GPU
mm.is_device_cpu = lambda device: device == CPU
mm.minimum_inference_memory = lambda: 64 * KILO
mm.extra_reserved_memory = lambda: 0
mm.get_total_memory = lambda device=None, torch_total_too=False: gpu.size


def free(device: Any = None, torch_free_too: bool = False) -> Any:
    left = gpu.size - gpu.used() if device in (None, GPU) else 1 << 40
    return (left, left) if torch_free_too else left


mm.get_free_memory = free


def on_gpu(module: torch.nn.Module) -> float:
    """Return the share of a module's weights that are on the GPU."""
    sizes = [(one.nbytes, one in gpu.weights) for one in module.parameters()]
    return sum(size for size, there in sizes if there) / max(1, sum(size for size, _ in sizes))


@contextmanager
def fresh(size: int, state: Any = None) -> Iterator[None]:
    """Provide an empty GPU of this size in bytes, in one of the host's memory states."""
    mm.vram_state = state or mm.VRAMState.NORMAL_VRAM
    gpu.size, gpu.real_size, gpu.arrivals = size, None, 0
    try:
        yield
    finally:
        gpu.size, gpu.real_size = 1 << 40, None
        mm.unload_all_models()
        gc.collect()
