"""Agents under the host's memory management.

Decision: an agent's model is handed over whole: plain torch modules cannot be cast on demand, so half a model on the card
would fail at its first layer.
"""

from __future__ import annotations

from weakref import WeakValueDictionary

import comfy.model_management as memory
import torch
from comfy.model_patcher import ModelPatcher


class AgentModel(torch.nn.Module):
    """Owns the `device` that the memory manager sets: on a transformers model it is a read-only property."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model
        self.device = torch.device("cpu")


class _WholePatcher(ModelPatcher):
    """All or nothing: refusing to unload a part makes the manager unload the whole."""

    def partially_unload(self, *args: object, **kwargs: object) -> int:
        return 0


_managed: WeakValueDictionary[int, ManagedModel] = WeakValueDictionary()
"""By the identity of the model, which stays alive as long as its entry."""


class ManagedModel:
    """A torch model under the host's memory management; it is on the card only after `ensure_loaded`."""

    def __init__(self, model: torch.nn.Module) -> None:
        load, offload = memory.get_torch_device(), memory.text_encoder_offload_device()
        self._patcher = _WholePatcher(AgentModel(model), load_device=load, offload_device=offload)

    @classmethod
    def of(cls, model: torch.nn.Module) -> ManagedModel:
        """The one manager of this model: planner and critic may share a base, which can only be in one place."""
        managed = _managed.get(id(model))
        if managed is None:
            managed = _managed[id(model)] = cls(model)
        return managed

    def ensure_loaded(self, working_bytes: int) -> None:
        """Have the whole model on its device, with `working_bytes` free beside it; nearly free if it is there."""
        memory.load_models_gpu([self._patcher], memory_required=working_bytes, force_full_load=True)
