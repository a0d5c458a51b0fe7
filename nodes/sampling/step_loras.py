"""LoRAs of single steps, applied to the connected model and CLIP by the host's own loader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...backend.errors import GeneratorError, SettingsError, boundary
from ...backend.generators.pipelines.folder import file_digest
from ...backend.machine.byte_lru import ByteLRU
from ...backend.types import StepLora
from .. import host

MAX_KEPT = 4
"""Maximum number of patched models that are kept. The weights of their LoRAs are in RAM."""


class StepLoras:
    """Patched copies of a model and a CLIP, which share the weights of the originals. Not thread-safe."""

    def __init__(self, model: Any, clip: Any) -> None:
        self._model, self._clip = model, clip
        self._kept: ByteLRU[tuple[str | None, float], tuple[Any, Any]] = ByteLRU(MAX_KEPT, lambda _: 1)

    def applied(self, lora: StepLora, strength: float) -> tuple[Any, Any]:
        """Return model and CLIP with a LoRA, on top of what is applied to them already.

        Raises:
            SettingsError: The LoRA was not found, changed since the run began, or does not fit the model.
            GeneratorError: The host cannot load it.
        """
        if lora_digest(lora.name) != lora.digest:
            raise SettingsError(
                f"The LoRA {lora.name!r} has changed since the run began.", "Queue the workflow again."
            )
        key = lora.digest, strength
        kept = self._kept.get(key)
        if kept is None:
            kept = self._loaded(lora.name, strength)
            self._kept.put(key, kept)
        return kept

    def _loaded(self, name: str, strength: float) -> tuple[Any, Any]:
        with boundary(GeneratorError, f"Loading the LoRA {name!r}"):
            model, clip = host.with_lora(self._model, self._clip, host.lora_name(name) or name, strength)
        changed = _patches(model) + _patches(clip.patcher) > _patches(self._model) + _patches(
            self._clip.patcher
        )
        if strength and not changed:
            # The host only logs this.
            raise SettingsError(
                f"Nothing in the LoRA {name!r} fits the connected model and CLIP.",
                "Check that the LoRA was made for this model.",
            )
        return model, clip


def lora_digest(name: str) -> str:
    """Return the content digest of a LoRA in the host's folders.

    Raises:
        SettingsError: It was not found.
    """
    return file_digest(_file(name))


def _file(name: str) -> Path:
    file = host.lora_file(name)
    if file is None:
        raise SettingsError(
            f"The LoRA {name[:200]!r} was not found.",
            "Put its .safetensors file into models/loras and press R, or choose another one in Edit Plan.",
        )
    return file


def _patches(patcher: Any) -> int:
    return sum(len(patches) for patches in patcher.patches.values())
