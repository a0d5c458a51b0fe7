"""One base model in memory for several chats, each with its own LoRA adapter or none.

Bases are cached weakly by folder and settings. So a planner and a critic with the same base share its
weights, and the memory is freed once both are gone. Adapters are attached to the base's modules; a reply
selects its adapter under the base's lock. Quantized weights cannot be moved between devices, so they are
dropped when a host needs their memory, and loaded again at the next use. Weights are moved to their device at
the first use and not when they are loaded, and they can be moved away. So of a planner and a critic with two
bases, the GPU has to hold only one at a time.
"""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...checkpoints.checkpoint import READING, checkpoint_digest, is_tested, read_json
from ...errors import ChatError, SettingsError, boundary
from ...machine.counters import count, not_counting
from ...machine.environment import device_named
from ...shown_text import shown_text
from ..engine.prefix_cache import forget_prefix
from ..engine.settings import PLAIN, EngineSettings
from .adapters import attach, check_usable, with_merged
from .loading import BaseSettings, load_model, load_processor

if TYPE_CHECKING:
    from ..engine.engine import Engine
    from .grammar_processor import GrammarTokens

logger = logging.getLogger(__name__)

MAIN_MEMORY = "cpu"
UNKNOWN_CONTEXT = 32768
"""Default context length in tokens, for a model that does not define it."""


class SharedBase:
    """A loaded model with its processor. `model` is always the base itself, whichever adapter is selected."""

    def __init__(self, folder: Path, digest: str, settings: BaseSettings, merged: Path | None = None) -> None:
        """Load the model. `merged` is an adapter to merge into its weights."""
        self.folder = folder
        self.digest = digest
        self.settings = settings
        self.lock = threading.RLock()
        self._merged = merged
        self._is_offloaded = False
        # First, since it is small: its errors are reported before gigabytes are loaded.
        self.processor: Any = load_processor(folder)
        self.family = str(read_json(folder / "config.json").get("model_type"))[:60]
        self.is_tested = is_tested(self.family)
        """Whether it is Qwen3-VL. Other families decode only with the library's `generate`."""
        self.model: Any = self._load()
        self.switched_off: dict[str, str] = {}
        """Engine settings that would change answers here, with the reasons."""
        if not self.is_tested:
            self.switched_off["enabled"] = f"the untested family {self.family} decodes only with the library"
            logger.warning("%s: %s.", shown_text(folder.name), shown_text(self.switched_off["enabled"]))
        self.is_settled = not settings.engine.enabled or not self.is_tested
        """Whether the check at first use is done."""
        self._engine: Engine | None = None
        self._grammar_tokens: GrammarTokens | None = None
        self.dtype = str(self.model.dtype).removeprefix("torch.")
        self._with_adapters: Any = None
        self._adapters: dict[str, str] = {}
        self._selected: str | None = None

    def add_adapter(self, folder: Path) -> str:
        """Attach a LoRA adapter, unless it is attached already, and return its name (its digest).

        Raises:
            ChatError: The adapter cannot be loaded.
        """
        check_usable(folder)
        name = checkpoint_digest(folder)
        with self.lock, boundary(ChatError, f"Adapter {str(folder)!r}"):
            if name not in self._adapters:
                self._attach(folder, name)
                self._adapters[name] = str(folder)
                self._selected = name
        return name

    def offload(self) -> None:
        """Free the device: weights are moved to RAM, quantized ones are dropped.

        The next use loads them again.
        """
        with self.lock:
            if self.settings.device == MAIN_MEMORY or self.model is None or self._is_offloaded:
                return
            if self.settings.quantization is not None:
                self.release()
            else:
                forget_prefix(self.model)
                self.model.to(MAIN_MEMORY)
                self._is_offloaded = True
            count(agents_offloaded=1)
            _empty_cache(self.settings.device)

    def release(self) -> None:
        """Drop the weights from any device. `restore`, or the next use, loads them from the folder again."""
        with self.lock:
            if self.model is not None:
                forget_prefix(self.model)
            self.model = self._with_adapters = self._selected = None
            # The library's modules have reference cycles.
            gc.collect()

    def restore(self) -> None:
        """Load the weights and adapters onto their device, unless they are there.

        Raises:
            ChatError: They cannot be loaded.
        """
        with self.lock:
            if self.model is None:
                self.model = self._load()
                for name, folder in self._adapters.items():
                    with boundary(ChatError, f"Adapter {folder!r}"):
                        self._attach(Path(folder), name)
                    self._selected = name
            if self._is_offloaded:
                self.model.to(self.settings.device)
                self._is_offloaded = False
                count(agents_loaded=1)

    @contextmanager
    def selected(self, adapter: str | None) -> Iterator[Any]:
        """Return the model with this adapter (`None`: without any) while the lock is held."""
        with self.lock:
            self.restore()
            if self._with_adapters is not None and adapter != self._selected:
                if adapter is None:
                    self._with_adapters.base_model.disable_adapter_layers()
                else:
                    self._with_adapters.base_model.enable_adapter_layers()
                    self._with_adapters.set_adapter(adapter)
                self._selected = adapter
            yield self.model

    @property
    def context(self) -> int:
        """Context length of the model in tokens, for prompt and answer together."""
        named = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        return int(named) if named else UNKNOWN_CONTEXT

    def engine(self) -> Engine | None:
        """Return the engine; `None` if it is switched off or was found inexact. Requires the lock.

        The first call compares it with the library (engine/self_check.py), on the current device of the
        weights.

        Raises:
            ChatError: Memory runs out, or the weights cannot be loaded.
        """
        self.restore()
        if not self.is_settled:
            from ..engine.self_check import checked_engine

            self._engine, self.switched_off = checked_engine(self.model, self.processor, self.settings.engine)
            for name, reason in self.switched_off.items():
                logger.warning(
                    "%s: %s is switched off: %s.", shown_text(self.folder.name), name, shown_text(reason)
                )
            self.is_settled = True
        return self._engine

    def effective_settings(self, adapter: str | None) -> EngineSettings:
        """Return the engine settings that are in effect.

        If the check at first use is not done, it is run now on the weights' device, which is freed again.

        Raises:
            ChatError: Memory runs out, or the weights cannot be loaded.
            Cancelled: The run was cancelled.
        """
        with self.lock:
            if not self.is_settled:
                with self._on_device_briefly(), self.selected(adapter):
                    self.engine()
        if not self.settings.engine.enabled or "enabled" in self.switched_off:
            return PLAIN
        off = {name: getattr(PLAIN, name) for name in self.switched_off}
        return self.settings.engine.model_copy(update=off)

    def grammar_tokens(self, ends: Sequence[int]) -> GrammarTokens:
        """Return the vocabulary for the grammar library. Requires the lock, and the same `ends` every time.

        Raises:
            ChatError: The vocabulary is not byte-level.
        """
        if self._grammar_tokens is None:
            from .grammar_processor import GrammarTokens

            width = self.model.get_output_embeddings().weight.shape[0]
            self._grammar_tokens = GrammarTokens(self.processor.tokenizer, ends, width)
        return self._grammar_tokens

    @contextmanager
    def _on_device_briefly(self) -> Iterator[None]:
        """Allow weights in RAM to be moved to their device within this context, and free the device after it.

        The copy in RAM stays, so that nothing is copied back.
        """
        if not self._is_offloaded:
            yield
            return
        waiting = [(parameter, parameter.data) for parameter in self.model.parameters()]
        try:
            with not_counting():
                yield
        finally:
            for parameter, data in waiting:
                parameter.data = data
            with not_counting():
                self.offload()

    def _load(self) -> Any:
        """Return the model: in RAM, or if it is quantized on its device."""
        with READING:
            model = load_model(self.folder, self.settings, self.family)
        if self.settings.quantization is None:
            self._is_offloaded = self.settings.device != MAIN_MEMORY
        else:
            count(agents_loaded=1)
        return model if self._merged is None else with_merged(model, self._merged)

    def _attach(self, folder: Path, name: str) -> None:
        self._with_adapters = attach(self.model, folder, name, self._with_adapters)
        self._with_adapters.base_model.enable_adapter_layers()
        self._with_adapters.set_adapter(name)
        self.model.train(False)


_bases: weakref.WeakValueDictionary[tuple[str, str, BaseSettings], SharedBase] = weakref.WeakValueDictionary()
_bases_lock = threading.Lock()


def shared_base(folder: Path, settings: BaseSettings, share: bool, merged: Path | None = None) -> SharedBase:
    """Return a base from memory or from its folder.

    Args:
        folder: Folder of the checkpoint.
        settings: How to load it.
        share: Whether to share it with others that use the same checkpoint and settings.
        merged: Folder of an adapter to merge into its weights; shared only with the same adapter.

    Raises:
        ChatError: The checkpoint or adapter cannot be loaded.
        SettingsError: The weights are quantized, so the adapter cannot be merged.
    """
    settings = settings.model_copy(update={"device": device_named(settings.device)})
    digest = checkpoint_digest(folder)
    if merged is not None:
        check_usable(merged)
        if settings.quantization is not None:
            raise SettingsError(
                f"Cannot merge an adapter into {settings.quantization} weights.",
                "Merge it into a checkpoint first (interleave-thinker train merge), or attach it.",
            )
        digest += f"+{checkpoint_digest(merged)}"
    if not share:
        return SharedBase(folder, digest, settings, merged)
    key = (str(folder), digest, settings)
    with _bases_lock:
        base = _bases.get(key)
        if base is None:
            base = _bases[key] = SharedBase(folder, digest, settings, merged)
        return base


def _empty_cache(device: str) -> None:
    """Return freed memory to the GPU driver, so that the next model and other programs can use it."""
    import torch

    if device.startswith("cuda"):
        torch.cuda.empty_cache()
    elif device.startswith("mps"):
        torch.mps.empty_cache()
