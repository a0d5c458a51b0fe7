"""Agents under the host's memory management.

An agent's model is loaded whole: plain torch modules cannot be cast on demand, so half a model on the GPU
would fail at its first layer. Where the host would keep a part (low memory, --novram), the patcher takes all
or nothing; where it frees memory, all is unloaded. Quantized weights cannot be moved: they are freed, and
read from disk again when needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import comfy.model_management as memory
import torch
from comfy.model_patcher import ModelPatcher

from ...backend.core.errors import ChatError, is_out_of_memory
from ...backend.core.machine.counters import count
from ...backend.models.chat.local.generation import forget_prefix
from .internals import unload

if TYPE_CHECKING:
    from ...backend.models.chat.llamacpp_chat import SharedServer
    from ...backend.models.chat.local.base_model import SharedBase

EVERYTHING = 1e32
WHAT_TO_LOWER = (
    "Choose a smaller agent in Load Agent, or the precision 8-bit or 4-bit if it is offered, use smaller "
    "images, or close other programs that use the GPU."
)


class AgentModel(torch.nn.Module):
    """Has the `device` that the memory manager sets, which is read-only on a transformers model."""

    def __init__(self, model: torch.nn.Module | None, device: torch.device) -> None:
        super().__init__()
        self.model = model
        self.device = device
        self.model_loaded_weight_memory = 0


class _WholePatcher(ModelPatcher):
    """Loads a whole model or nothing; refusing to unload a part makes the manager unload all of it."""

    def partially_load(self, device_to: Any, extra_memory: float = 0, *args: Any, **kwargs: Any) -> Any:
        return super().partially_load(device_to, EVERYTHING, *args, **kwargs)

    def partially_unload(self, *args: object, **kwargs: object) -> int:
        return 0

    def unpatch_model(self, device_to: Any = None, unpatch_weights: bool = True) -> Any:
        if unpatch_weights and self.model.model is not None:
            forget_prefix(self.model.model)
        return super().unpatch_model(device_to, unpatch_weights)

    def model_size(self) -> int:
        # The host counts shared weights twice, and adapters may have been added since.
        if self.model.model is not None:
            self.size = bytes_of(self.model.model)
        return self.size


class _ReloadingPatcher(_WholePatcher):
    """Handles weights that cannot be moved: unloading frees them, loading reads them again."""

    def __init__(self, weights: SharedBase | SharedServer, device: torch.device, size: int) -> None:
        self._weights = weights
        super().__init__(
            AgentModel(None, device), load_device=device, offload_device=torch.device("cpu"), size=size
        )

    def is_there(self, there: bool) -> None:
        """Note for the manager whether the weights are on the GPU."""
        self.model.model_loaded_weight_memory = self.size if there else 0

    def load(self, *args: Any, **kwargs: Any) -> Any:
        self._weights.restore()
        loaded = super().load(*args, **kwargs)
        # The host counts only the weights that it moved itself.
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
"""Managers by the id of the managed object, which lives as long as its entry."""


class ManagedModel:
    """Puts a torch model under the host's memory management; it is on the GPU only after `ensure_loaded`."""

    def __init__(self, model: torch.nn.Module) -> None:
        offload = memory.text_encoder_offload_device()
        # The weights may be on a device already if they were managed before.
        place = AgentModel(model, next((one.device for one in model.parameters()), offload))
        self._managed: object = model
        self._patcher: ModelPatcher = _WholePatcher(place, memory.get_torch_device(), offload)

    @classmethod
    def of(cls, model: torch.nn.Module) -> ManagedModel:
        """Return the only manager of this model. Planner and critic may share a base, which has one place."""
        return _managed.get(id(model)) or _managed.setdefault(id(model), cls(model))

    @classmethod
    def of_reloadable(cls, weights: SharedBase) -> ManagedModel:
        """Return the only manager of weights on the GPU that can only be freed and read again."""
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
    def of_process(cls, process: SharedServer) -> ManagedModel:
        """Return the only manager of a server's weights, which are not loaded before the server is needed."""
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
        """Load the whole model to its device, with `working_bytes` of free memory; fast if it is there.

        Raises:
            ChatError: It does not fit. Everything is then as before.
        """
        device = self._patcher.load_device
        if device != self._patcher.offload_device:
            needed, there = self.size + working_bytes, memory.get_total_memory(device)
            if needed > there:
                raise ChatError(
                    (
                        f"The agent needs {gigabytes(needed)} of memory on {device}, which has only "
                        f"{gigabytes(there)}."
                    ),
                    WHAT_TO_LOWER,
                )
        with explaining_out_of_memory():
            memory.load_models_gpu([self._patcher], memory_required=working_bytes, force_full_load=True)

    def offload(self) -> None:
        """Unload the model from the GPU until `ensure_loaded`, unless the host runs with --highvram.

        Without this call an agent could stay for good, since the manager unloads other models first.
        """
        if memory.vram_state == memory.VRAMState.HIGH_VRAM:
            return
        if unload(self._patcher):
            memory.soft_empty_cache()
            count(agents_offloaded=1)


@contextmanager
def explaining_out_of_memory() -> Iterator[None]:
    """Turn a lack of GPU memory or RAM into an error with advice.

    Raises:
        ChatError: There is not enough memory.
    """
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        memory.soft_empty_cache()
        raise ChatError("The agent ran out of memory.", WHAT_TO_LOWER) from error


def agent_device() -> str:
    """Return the torch name of the device for agents."""
    return str(memory.get_torch_device())


def make_room(needed: int) -> None:
    """Free `needed` bytes on the agents' device, before weights are read directly to it."""
    device = memory.get_torch_device()
    if device != torch.device("cpu"):
        memory.free_memory(needed + memory.minimum_inference_memory(), device)


def bytes_of(model: torch.nn.Module) -> int:
    """Return the bytes of a model's weights and buffers, each counted once."""
    return sum(one.nbytes for one in model.parameters()) + sum(one.nbytes for one in model.buffers())


def gigabytes(size: float) -> str:
    """Return a size in bytes as text."""
    return f"{size / 1024**3:.1f} GB"
