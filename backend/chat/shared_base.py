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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ChatError, SettingsError, boundary
from .checkpoints import check_adapter, checkpoint_digest
from .levers import Levers

if TYPE_CHECKING:
    from .own_decoding import OwnDecoding

logger = logging.getLogger(__name__)

DTYPES = ("auto", "bfloat16", "float16", "float32")
QUANTIZATIONS = ("8bit", "4bit")
# The vision tower and the output layer lose the most by quantisation and weigh the least. (Module names as they
# stand in the model: a bare "visual" is silently ignored.)
NOT_QUANTIZED = ["model.visual", "lm_head"]

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
        self.model: Any = _load_model(folder, *self._source)
        self.processor: Any = _load_processor(folder)
        self.switched_off: dict[str, str] = {}
        """Levers that would have changed answers here, and how that showed."""
        self._own_decoding: OwnDecoding | None = None
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
            self.model = _load_model(self.folder, *self._source)
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
    device = _device(device)
    digest = checkpoint_digest(folder)
    if not share:
        return SharedBase(folder, digest, dtype, device, quantization, levers)
    key = (str(folder), digest, dtype, device, quantization, levers)
    with _bases_lock:
        base = _bases.get(key)
        if base is None:
            base = _bases[key] = SharedBase(folder, digest, dtype, device, quantization, levers)
        return base


def _device(name: str) -> str:
    import torch

    if name != "auto":
        try:
            return str(torch.device(name))
        except RuntimeError as error:
            raise SettingsError(
                f"There is no device {name!r}.", "Such as cpu, cuda, cuda:1 or mps."
            ) from error
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _load_model(folder: Path, dtype: str, device: str, quantization: str | None, linear_patches: bool) -> Any:
    import transformers

    if not hasattr(transformers, "Qwen3VLForConditionalGeneration"):
        raise ChatError(
            f"transformers {transformers.__version__} does not know Qwen3-VL.",
            "Install 4.57 or newer: pip install -U transformers",
        )
    options: dict[str, Any] = {"dtype": dtype, "attn_implementation": "sdpa", "use_safetensors": True}
    if quantization is not None:
        options |= {"quantization_config": _quantization(quantization), "device_map": {"": device}}
    with boundary(ChatError, f"Checkpoint {str(folder)!r}"), _without_progress_bars():
        loaded: Any = transformers.AutoModelForImageTextToText.from_pretrained(
            str(folder),
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
            **options,
        )
        model, loading = loaded
        missing = sorted(loading.get("missing_keys") or ())
        if missing:
            # The library would go on with random weights in their place.
            raise ChatError(
                f"Checkpoint {str(folder)!r} lacks {len(missing)} weights, such as {missing[0]!r}."
            )
        if quantization is None:
            model.to(device)
    model.eval().requires_grad_(False)
    if linear_patches:
        from .linear_patches import use_linear_patches

        use_linear_patches(model)
    # Only what ends a reply is the checkpoint's; how to decode is told with every request.
    own = model.generation_config
    model.generation_config = transformers.GenerationConfig(
        eos_token_id=own.eos_token_id, pad_token_id=own.pad_token_id, bos_token_id=own.bos_token_id
    )
    return model


@contextmanager
def _without_progress_bars() -> Iterator[None]:
    """Keep the library's bars off the screen, on which our own progress is shown."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _quantization(name: str) -> Any:
    for library in ("bitsandbytes", "accelerate"):
        if importlib.util.find_spec(library) is None:
            raise ChatError(
                f"{name} quantization needs the library {library}.", f"Install it: pip install {library}"
            )
    import torch
    from transformers import BitsAndBytesConfig

    if name == "8bit":
        return BitsAndBytesConfig(load_in_8bit=True, llm_int8_skip_modules=NOT_QUANTIZED)
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=torch.bfloat16,
        llm_int8_skip_modules=NOT_QUANTIZED,
    )


def _load_processor(folder: Path) -> Any:
    if importlib.util.find_spec("torchvision") is None:
        raise ChatError(
            "Qwen3-VL's image processor needs torchvision.", "Install it: pip install torchvision"
        )
    from transformers import AutoProcessor

    with boundary(ChatError, f"Processor of {str(folder)!r}"):
        processor = AutoProcessor.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    if getattr(processor, "image_processor", None) is None:
        raise ChatError(f"{str(folder)!r} has no image processor.", "Is preprocessor_config.json there?")
    return processor
