"""One base model in memory for any number of chats, each with its own LoRA adapter or none.

Decision: bases are kept in a weak cache by (folder, dtype, device, quantization), so a planner and a critic on the same
base share its weights without being told to, and the memory is free once both are gone. Adapters are attached to the
base's own modules; who replies next selects its adapter under the base's lock. Quantised weights cannot be moved between
devices, so a host that needs their room has them forgotten, and read again when they are next needed.
"""

from __future__ import annotations

import gc
import importlib.util
import logging
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ChatError, SettingsError, boundary
from .checkpoints import check_adapter, checkpoint_digest
from .levers import Levers
from .loading import DTYPES, QUANTIZATIONS, device_named, load_model, load_processor

if TYPE_CHECKING:
    from .grammar import GrammarTokens
    from .own_decoding import OwnDecoding

logger = logging.getLogger(__name__)

BaseKey = tuple[str, str, str, str, str | None, Levers]


class SharedBase:
    """A loaded model with its processor. `model` is always the base itself, whichever adapter is selected."""

    def __init__(
        self,
        folder: Path,
        digest: str,
        dtype: str,
        device: str,
        quantization: str | None,
        levers: Levers = Levers(),  # noqa: B008 - frozen
    ) -> None:
        self.folder = folder
        self.digest = digest
        self.lock = threading.RLock()
        self.levers = levers
        self._source = (dtype, device, quantization, levers.linear_patches)
        self.model: Any = load_model(folder, *self._source)
        self.processor: Any = load_processor(folder)
        self.switched_off: dict[str, str] = {}
        """Levers that would have changed answers here, and how that showed."""
        self._own_decoding: OwnDecoding | None = None
        self._grammar_tokens: GrammarTokens | None = None
        self.dtype = str(self.model.dtype).removeprefix("torch.")
        self.quantization = quantization
        self._with_adapters: Any = None
        self._adapters: dict[str, str] = {}
        self._selected: str | None = None

    def add_adapter(self, folder: Path) -> str:
        """Attach a LoRA adapter and return its name (its digest); one that is there already is not loaded again."""
        check_adapter(folder)
        if importlib.util.find_spec("peft") is None:
            raise ChatError("Adapters need the library peft.", "Install it: pip install peft")
        name = checkpoint_digest(folder)
        with self.lock, boundary(ChatError, f"Adapter {str(folder)!r}"):
            if name not in self._adapters:
                self._check_fit(folder)
                self._attach(folder, name)
                self._adapters[name] = str(folder)
                self._selected = name
        return name

    def release(self) -> None:
        """Forget the weights, on whatever device; `restore`, or the next use, reads them from the folder again."""
        with self.lock:
            self.model = self._with_adapters = self._selected = None
            # The library's modules refer to each other in circles.
            gc.collect()

    def restore(self) -> None:
        """Have the weights and adapters again after `release`; nothing happens if they are there. Raises ChatError."""
        with self.lock:
            if self.model is not None:
                return
            self.model = load_model(self.folder, *self._source)
            for name, folder in self._adapters.items():
                with boundary(ChatError, f"Adapter {folder!r}"):
                    self._attach(Path(folder), name)
                self._selected = name

    @contextmanager
    def selected(self, adapter: str | None) -> Iterator[Any]:
        """The model with this adapter (None: without any) for as long as the lock is held."""
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

    def own_decoding(self) -> OwnDecoding | None:
        """What decodes without `generate`; None where that is switched off or was found inexact. Needs the lock.

        The first time it is compared with the library (exactness.py), where the weights are now.
        """
        if self._own_decoding is None and self.levers.own_loop and "own_loop" not in self.switched_off:
            from .exactness import switch_off_inexact
            from .own_decoding import OwnDecoding

            own = OwnDecoding(self.processor, self.levers)
            self.switched_off = switch_off_inexact(own, self.model, self.processor)
            for lever, reason in self.switched_off.items():
                logger.warning("%s: %s is switched off: %s.", self.folder.name, lever, reason)
            self._own_decoding = None if "own_loop" in self.switched_off else own
        return self._own_decoding

    def grammar_tokens(self, ends: Sequence[int]) -> GrammarTokens:
        """The vocabulary as the grammar library needs it; the same `ends` every time. Needs the lock. Raises ChatError."""
        if self._grammar_tokens is None:
            from .grammar import GrammarTokens

            width = self.model.get_output_embeddings().weight.shape[0]
            self._grammar_tokens = GrammarTokens(self.processor.tokenizer, ends, width)
        return self._grammar_tokens

    def _check_fit(self, folder: Path) -> None:
        """Raise ChatError unless every LoRA matrix has a module of its size, before anything is attached."""
        from safetensors import safe_open

        modules = dict(self.model.named_modules())
        fitting = 0
        with safe_open(folder / "adapter_model.safetensors", framework="pt") as weights:
            for key in weights.keys():  # noqa: SIM118 - not a dict
                path, _, side = key.removeprefix("base_model.model.").partition(".lora_")
                if side not in ("A.weight", "B.weight"):
                    continue
                module = modules.get(path)
                size = getattr(module, "in_features" if side[0] == "A" else "out_features", None)
                if size != weights.get_slice(key).get_shape()[1 if side[0] == "A" else 0]:
                    raise ChatError(f"The adapter {str(folder)!r} does not fit this base model (at {path}).")
                fitting += 1
        if not fitting:
            raise ChatError(f"The adapter {str(folder)!r} holds no LoRA weights for this base model.")

    def _attach(self, folder: Path, name: str) -> None:
        from peft import PeftModel

        if self._with_adapters is None:
            self._with_adapters = PeftModel.from_pretrained(self.model, str(folder), adapter_name=name)
        else:
            self._with_adapters.base_model.enable_adapter_layers()
            self._with_adapters.load_adapter(str(folder), adapter_name=name)
        self._with_adapters.set_adapter(name)
        self.model.eval()


_bases: weakref.WeakValueDictionary[BaseKey, SharedBase] = weakref.WeakValueDictionary()
_bases_lock = threading.Lock()


def shared_base(
    folder: Path,
    dtype: str,
    device: str,
    quantization: str | None,
    share: bool,
    levers: Levers = Levers(),  # noqa: B008 - frozen
) -> SharedBase:
    """The base from memory or from its folder; `share` False loads a copy of its own. Raises ChatError."""
    if dtype not in DTYPES:
        raise SettingsError(f"There is no dtype {dtype!r}.", f"Known: {', '.join(DTYPES)}.")
    if quantization is not None and quantization not in QUANTIZATIONS:
        raise SettingsError(
            f"There is no quantization {quantization!r}.", f"Known: {', '.join(QUANTIZATIONS)}."
        )
    device = device_named(device)
    digest = checkpoint_digest(folder)
    if not share:
        return SharedBase(folder, digest, dtype, device, quantization, levers)
    key = (str(folder), digest, dtype, device, quantization, levers)
    with _bases_lock:
        base = _bases.get(key)
        if base is None:
            base = _bases[key] = SharedBase(folder, digest, dtype, device, quantization, levers)
        return base
