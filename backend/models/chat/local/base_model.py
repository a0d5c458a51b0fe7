"""Loads a checkpoint's weights and processor onto a device and in a dtype.

Anything that may be missing (a library, a GPU that supports the dtype, a weight in the file) is checked
before or right after loading, and reported as one ChatError that says what to do. Nothing is loaded in
another way than requested.
"""

from __future__ import annotations

import gc
import importlib.util
import logging
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from ....core.errors import ChatError, boundary
from ....core.machine.counters import count
from ....core.machine.environment import device_named
from ....core.shown_text import shown_text
from ....core.types import Value
from ...checkpoints.checkpoint import LOCAL, checkpoint_digest, is_tested, load_whole, loading, read_json
from ..chat_template import RENDERER
from .adapters import attach, check_usable
from .generation import forget_prefix

if TYPE_CHECKING:
    from ..grammars import GrammarTokens


# The vision tower and the output layer lose the most by quantization and are the smallest. (Full module names
# are necessary: a bare "visual" is silently ignored.)
NOT_QUANTIZED = ["model.visual", "lm_head"]
OTHER_TOWERS = [
    "model.vision_tower",
    "model.vision_model",
    "model.multi_modal_projector",
    "model.connector",
    "model.embed_vision",
]
"""Names of these modules in untested families."""
PROCESSOR_FILES = {
    "image processor": ("preprocessor_config.json", "processor_config.json"),
    "tokenizer": ("tokenizer.json", "tokenizer.model", "vocab.json", "tekken.json", "*.tiktoken", "*.model"),
}
COPY = "Copy the processor's files (*.json, *.jinja) from its base model into the folder."
logger = logging.getLogger(__name__)
MAIN_MEMORY = "cpu"
GROUPED = "sdpa_grouped"
UNKNOWN_CONTEXT = 32768
"""Default context length in tokens, for a model that does not define it."""
_bases_lock = threading.Lock()


class EngineSettings(Value):
    """How a local model decodes. These settings do not change answers."""

    prefix_tokens: int = Field(
        default=8192,
        ge=0,
        description="Cache the keys and values of a question with up to this number of tokens on the device, "
        "so that only the different part of the next question is read. Exact except for rounding; 0 disables "
        "it. A thousand tokens take 0.15 GB with an 8B model.",
    )
    static_cache: bool | None = Field(
        default=None,
        description="On a GPU, decode with a cache of a fixed size, with which the library compiles the "
        "decoding. Compiling takes up to a minute. Default: after a model has written 1,000 tokens without "
        "leaving the GPU.",
    )


class BaseSettings(Value):
    """How a base model is loaded and decodes."""

    dtype: Literal["auto", "bfloat16", "float16", "float32"] = Field(
        default="auto", description="Model dtype. Default: that of the checkpoint."
    )
    device: str = Field(default="auto", description="Torch device. Default: the best one available.")
    quantization: Literal["8bit", "4bit"] | None = Field(
        default=None, description="Quantization of the language model's weights. Default: none."
    )
    engine: EngineSettings = Field(default=EngineSettings(), description="Settings for faster answers.")


def load_model(folder: Path, settings: BaseSettings, family: object) -> Any:
    """Load a model.

    Args:
        folder: Folder of the checkpoint.
        settings: How to load it.
        family: Model type in its configuration.

    Returns:
        The model: in RAM, or if it is quantized on the device.

    Raises:
        ChatError: A library, a GPU or a weight is missing.
    """
    import transformers

    if not hasattr(transformers, "Qwen3VLForConditionalGeneration"):
        raise ChatError(
            f"transformers {transformers.__version__} does not support Qwen3-VL.",
            "Install version 5.0 or newer: pip install -U transformers",
        )
    tested = is_tested(family)
    options: dict[str, Any] = {"dtype": settings.dtype}
    # For other families the library chooses the attention implementation.
    options |= {"attn_implementation": grouped_attention()} if tested else {}
    if settings.quantization is not None:
        whole = NOT_QUANTIZED if tested else [*NOT_QUANTIZED, *OTHER_TOWERS]
        config = _quantization(settings.quantization, whole)
        options |= {"quantization_config": config, "device_map": {"": settings.device}}
    model = load_whole(folder, **options)
    model.requires_grad_(False)
    for module in model.modules():
        # On some CPUs bitsandbytes packs 4-bit weights when they are used, and fails for such widths.
        if hasattr(module, "support_avx512bf16_for_cpu") and module.in_features % 64:
            module.support_avx512bf16_for_cpu = False
    if tested:
        use_linear_patches(model)
    # Only the end tokens are from the checkpoint; every request has its own decoding settings.
    own = model.generation_config
    model.generation_config = transformers.GenerationConfig(
        eos_token_id=own.eos_token_id, pad_token_id=own.pad_token_id, bos_token_id=own.bos_token_id
    )
    return model


@cache
def grouped_attention() -> str:
    """Register an attention that computes what the library's `sdpa` does, and return its name.

    If there is a mask, as for drafted tokens, the library copies the keys and values for every head that
    shares them. On a CPU the copies take longer than the attention, and torch does not need them.
    """
    from torch.nn.functional import scaled_dot_product_attention
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import sdpa_mask

    def attend(module: Any, *states: Any, **options: Any) -> tuple[Any, None]:
        """Attend from queries to keys and values, and perhaps a mask."""
        if len(states) < 4 or states[3] is None or not states[0].is_cpu:
            return sdpa_attention_forward(module, *states, **options)
        output = scaled_dot_product_attention(*states, scale=options["scaling"], enable_gqa=True)
        return output.transpose(1, 2), None

    AttentionInterface.register(GROUPED, attend)
    AttentionMaskInterface.register(GROUPED, sdpa_mask)
    return GROUPED


def use_linear_patches(model: Any) -> None:
    """Embed image patches by a matrix product, which equals a convolution with kernel = stride.

    Any other convolution is left unchanged. The convolution is thousands of times slower on some GPUs in
    bfloat16 (transformers issue 45750). Only this object is changed: the library's own switch
    (`fusion_config`) changes the class for the whole process.
    """
    from torch.nn import Conv3d
    from torch.nn.functional import linear

    patches = model.model.visual.patch_embed
    convolution = getattr(patches, "proj", None)
    if not isinstance(convolution, Conv3d) or convolution.stride != convolution.kernel_size:
        return

    def forward(hidden_states: Any) -> Any:
        weight = convolution.weight.flatten(1)
        return linear(hidden_states.to(weight.dtype).view(-1, weight.shape[1]), weight, convolution.bias)

    patches.forward = forward


def _quantization(name: str, whole: list[str]) -> Any:
    """Return the library's quantization settings. `whole`: modules that are not quantized."""
    for library in ("bitsandbytes", "accelerate"):
        if importlib.util.find_spec(library) is None:
            raise ChatError(
                f"{name} quantization requires the library {library}.", f"Install it: pip install {library}"
            )
    import torch
    from transformers import BitsAndBytesConfig

    if name == "8bit":
        # It logs a conversion to float16 at every product, thousands of times per reply.
        logging.getLogger("bitsandbytes.autograd._functions").setLevel(logging.ERROR)
        return BitsAndBytesConfig(load_in_8bit=True, llm_int8_skip_modules=whole)
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=torch.bfloat16,
        llm_int8_skip_modules=whole,
    )


def load_processor(folder: Path) -> Any:
    """Load tokenizer, image processor and chat template.

    Raises:
        ChatError: A file or a library is missing.
    """
    if importlib.util.find_spec("torchvision") is None:
        raise ChatError(
            "The image processor of an agent requires torchvision.", "Install it: pip install torchvision"
        )
    RENDERER.start()
    # Without a tokenizer file the library would create an empty tokenizer.
    for what, names in PROCESSOR_FILES.items():
        if not any(True for name in names for _ in folder.glob(name)):
            raise ChatError(f"The folder {str(folder)!r} does not contain the {what} ({names[0]}).", COPY)
    with boundary(ChatError, f"Processor of {str(folder)!r}"):
        from transformers import AutoProcessor

        processor = AutoProcessor.from_pretrained(str(folder), **LOCAL)
    if getattr(processor, "image_processor", None) is None:
        raise ChatError(f"The processor in {str(folder)!r} does not have an image processor.", COPY)
    if getattr(processor, "chat_template", None) is None:
        raise ChatError(
            f"The processor in {str(folder)!r} does not have a chat template.",
            f"Check for chat_template.jinja. {COPY} Base models without instruction tuning have none.",
        )
    return processor


def end_tokens(model: Any, processor: Any, folder: Path) -> tuple[int, ...]:
    """Return the tokens that end a reply.

    Raises:
        ChatError: The checkpoint does not define one.
    """
    own = model.generation_config.eos_token_id
    ends = [own] if isinstance(own, int) else list(own or ())
    if not ends and processor.tokenizer.eos_token_id is not None:
        ends = [processor.tokenizer.eos_token_id]
    if not ends:
        raise ChatError(
            f"Checkpoint {str(folder)!r} does not define an end token (eos_token_id).",
            "Copy generation_config.json from its base model.",
        )
    return tuple(ends)


class SharedBase:
    """A loaded model with its processor. `model` is always the base itself, whichever adapter is selected."""

    def __init__(self, folder: Path, digest: str, settings: BaseSettings) -> None:
        """Load the model."""
        self.folder = folder
        self.digest = digest
        self.settings = settings
        self.lock = threading.RLock()
        self._is_offloaded = False
        # First, since it is small: its errors are reported before gigabytes are loaded.
        self.processor: Any = load_processor(folder)
        self.family = str(read_json(folder / "config.json").get("model_type"))[:60]
        self.is_tested = is_tested(self.family)
        """Whether it is Qwen3-VL."""
        self.model: Any = self._load()
        if not self.is_tested:
            logger.warning("%s: the family %s is untested.", shown_text(folder.name), shown_text(self.family))
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

    @property
    def quantization(self) -> str | None:
        """Quantization of the weights, which then cannot be moved."""
        return self.settings.quantization

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
                try:
                    for name, folder in self._adapters.items():
                        with boundary(ChatError, f"Adapter {folder!r}"):
                            self._attach(Path(folder), name)
                        self._selected = name
                except BaseException:
                    # Otherwise the next reply would be that of the base without its adapter.
                    self.release()
                    raise
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

    def grammar_tokens(self, ends: Sequence[int]) -> GrammarTokens:
        """Return the vocabulary for the grammar library. Requires the lock, and the same `ends` every time.

        Raises:
            ChatError: The vocabulary is not byte-level.
        """
        if self._grammar_tokens is None:
            from ..grammars import GrammarTokens

            width = self.model.get_output_embeddings().weight.shape[0]
            self._grammar_tokens = GrammarTokens(self.processor.tokenizer, ends, width)
        return self._grammar_tokens

    def _load(self) -> Any:
        """Return the model: in RAM, or if it is quantized on its device."""
        with loading():
            model = load_model(self.folder, self.settings, self.family)
        if self.settings.quantization is None:
            self._is_offloaded = self.settings.device != MAIN_MEMORY
        else:
            count(agents_loaded=1)
        return model

    def _attach(self, folder: Path, name: str) -> None:
        self._with_adapters = attach(self.model, folder, name, self._with_adapters)
        self._with_adapters.base_model.enable_adapter_layers()
        self._with_adapters.set_adapter(name)
        self.model.train(False)


_bases: weakref.WeakValueDictionary[tuple[str, str, BaseSettings], SharedBase] = weakref.WeakValueDictionary()


def shared_base(folder: Path, settings: BaseSettings, share: bool) -> SharedBase:
    """Return a base from memory or from its folder.

    Args:
        folder: Folder of the checkpoint.
        settings: How to load it.
        share: Whether to share it with others that use the same checkpoint and settings.

    Raises:
        ChatError: The checkpoint cannot be loaded.
    """
    settings = settings.model_copy(update={"device": device_named(settings.device)})
    digest = checkpoint_digest(folder)
    if not share:
        return SharedBase(folder, digest, settings)
    key = (str(folder), digest, settings)
    with _bases_lock:
        base = _bases.get(key)
        if base is None:
            base = _bases[key] = SharedBase(folder, digest, settings)
        return base


def _empty_cache(device: str) -> None:
    """Return freed memory to the GPU driver, so that the next model and other programs can use it."""
    import torch

    if device.startswith("cuda"):
        torch.cuda.empty_cache()
    elif device.startswith("mps"):
        torch.mps.empty_cache()
