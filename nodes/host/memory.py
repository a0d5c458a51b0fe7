"""Agents under the host's memory management.

Decision: an agent's model is handed over whole: plain torch modules cannot be cast on demand, so half a model
on the card would fail at its first layer. Where the host would keep a part (low memory, --novram) the patcher
takes all or nothing; where it takes memory back, all goes. Quantised weights cannot be moved at all:
theirs are forgotten, and read from the disk when they are needed again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol
from weakref import WeakValueDictionary

import comfy.model_management as memory
import torch
from comfy.model_patcher import ModelPatcher

from ...backend.chat.engine.prefix_cache import forget_prefix
from ...backend.counters import count
from ...backend.errors import ChatError, is_out_of_memory
from .internals import unload

EVERYTHING = 1e32
WHAT_TO_LOWER = (
    "In Load Agent choose a smaller agent or, where it is offered, the precision 8-bit or 4-bit; "
    "or give smaller images; or close other programs that use the card."
)


class Reloadable(Protocol):
    """Weights that are read again instead of being moved (shared_base.SharedBase)."""

    model: Any

    def restore(self) -> None: ...

    def release(self) -> None: ...


class ServerProcess(Protocol):
    """A program of its own with weights on the card (llamacpp.chat.SharedServer): it ends where they would be
    moved, and starts again by itself."""

    size: int

    def restore(self) -> None: ...

    def release(self) -> None: ...


class AgentModel(torch.nn.Module):
    """Owns the `device` that the memory manager sets: on a transformers model it is a read-only property."""

    def __init__(self, model: torch.nn.Module | None, device: torch.device) -> None:
        super().__init__()
        self.model = model
        self.device = device
        self.model_loaded_weight_memory = 0


class _WholePatcher(ModelPatcher):
    """All or nothing: the card gets the whole model, and refusing to unload a part makes the manager unload
    the whole."""

    def partially_load(self, device_to: Any, extra_memory: float = 0, *args: Any, **kwargs: Any) -> Any:
        return super().partially_load(device_to, EVERYTHING, *args, **kwargs)

    def partially_unload(self, *args: object, **kwargs: object) -> int:
        return 0

    def unpatch_model(self, device_to: Any = None, unpatch_weights: bool = True) -> Any:
        if unpatch_weights and self.model.model is not None:
            forget_prefix(self.model.model)
        return super().unpatch_model(device_to, unpatch_weights)

    def model_size(self) -> int:
        # The host's own sum counts weights that two layers share twice, and adapters may have come since.
        if self.model.model is not None:
            self.size = bytes_of(self.model.model)
        return self.size


class _ReloadingPatcher(_WholePatcher):
    """For weights that cannot be moved, of `size` bytes: unloading forgets them, loading reads them again."""

    def __init__(self, weights: Reloadable | ServerProcess, device: torch.device, size: int) -> None:
        self._weights = weights
        super().__init__(
            AgentModel(None, device), load_device=device, offload_device=torch.device("cpu"), size=size
        )

    def is_there(self, there: bool) -> None:
        """Note whether the weights are on the card, where the manager reads it."""
        self.model.model_loaded_weight_memory = self.size if there else 0

    def load(self, *args: Any, **kwargs: Any) -> Any:
        self._weights.restore()
        loaded = super().load(*args, **kwargs)
        # The host counts the weights that it moved itself, which are none.
        self.is_there(True)
        return loaded

    def unpatch_model(self, device_to: Any = None, unpatch_weights: bool = True) -> Any:
        if unpatch_weights:
            self._weights.release()
        unpatched = super().unpatch_model(device_to, unpatch_weights)
        if unpatch_weights:
            self.is_there(False)
        return unpatched


_managed: WeakValueDictionary[int, ManagedModel] = WeakValueDictionary()
"""By the identity of what it manages, which stays alive as long as its entry."""


class ManagedModel:
    """A torch model under the host's memory management; it is on the card only after `ensure_loaded`."""

    def __init__(self, model: torch.nn.Module) -> None:
        offload = memory.text_encoder_offload_device()
        # Where the weights are already, should another one have managed them before.
        place = AgentModel(model, next((one.device for one in model.parameters()), offload))
        self._managed: object = model
        self._patcher: ModelPatcher = _WholePatcher(place, memory.get_torch_device(), offload)

    @classmethod
    def of(cls, model: torch.nn.Module) -> ManagedModel:
        """The one manager of this model: planner and critic may share a base, which can only be in one
        place."""
        return _managed.get(id(model)) or _managed.setdefault(id(model), cls(model))

    @classmethod
    def of_reloadable(cls, weights: Reloadable) -> ManagedModel:
        """The one manager of weights that are on the card and can only be forgotten and read again."""
        managed = _managed.get(id(weights))
        if managed is None:
            managed = cls.__new__(cls)
            managed._managed = weights
            size = bytes_of(weights.model)
            managed._patcher = patcher = _ReloadingPatcher(weights, memory.get_torch_device(), size)
            patcher.is_there(True)
            _managed[id(weights)] = managed
            managed.ensure_loaded(0)
        return managed

    @classmethod
    def of_process(cls, process: ServerProcess) -> ManagedModel:
        """The one manager of a server's weights, which are not there before it is needed."""
        managed = _managed.get(id(process))
        if managed is None:
            managed = cls.__new__(cls)
            managed._managed = process
            managed._patcher = _ReloadingPatcher(process, memory.get_torch_device(), process.size)
            _managed[id(process)] = managed
        return managed

    @property
    def size(self) -> int:
        """Bytes of the weights."""
        return self._patcher.model_size()

    def ensure_loaded(self, working_bytes: int) -> None:
        """Have the whole model on its device, with `working_bytes` free beside it; nearly free if it is
        there.

        Raises ChatError if it cannot fit, with everything then back where it was.
        """
        device = self._patcher.load_device
        if device != self._patcher.offload_device:
            needed, there = self.size + working_bytes, memory.get_total_memory(device)
            if needed > there:
                raise ChatError(
                    (
                        f"The agent needs {gigabytes(needed)} of memory on {device}, which has "
                        f"{gigabytes(there)}."
                    ),
                    WHAT_TO_LOWER,
                )
        with explaining_out_of_memory():
            memory.load_models_gpu([self._patcher], memory_required=working_bytes, force_full_load=True)

    def offload(self) -> None:
        """Go off the card until `ensure_loaded`; the host's --highvram, which keeps models there, is
        respected.

        Asked for room, the manager takes the models that it can take apart first, and an agent might
        stay for good.
        """
        if memory.vram_state == memory.VRAMState.HIGH_VRAM:
            return
        if unload(self._patcher):
            memory.soft_empty_cache()
            count(agents_offloaded=1)


@contextmanager
def explaining_out_of_memory() -> Iterator[None]:
    """An error inside that comes from a full card or full main memory becomes a ChatError that says what to
    lower."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        memory.soft_empty_cache()
        raise ChatError("The agent ran out of memory.", WHAT_TO_LOWER) from error


def agent_device() -> str:
    """Device on which agents work, as torch names it."""
    return str(memory.get_torch_device())


def make_room(needed: int) -> None:
    """Have `needed` bytes free on the agents' device, before weights are read straight onto it."""
    device = memory.get_torch_device()
    if device != torch.device("cpu"):
        memory.free_memory(needed + memory.minimum_inference_memory(), device)


def bytes_of(model: torch.nn.Module) -> int:
    """Bytes of a model's weights and buffers, each counted once."""
    return sum(one.nbytes for one in model.parameters()) + sum(one.nbytes for one in model.buffers())


def gigabytes(size: float) -> str:
    """A size in bytes, to read."""
    return f"{size / 1024**3:.1f} GB"
