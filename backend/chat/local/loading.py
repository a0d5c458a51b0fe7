"""Loads a checkpoint's weights and processor onto a device and in a dtype.

Anything that may be missing (a library, a GPU that supports the dtype, a weight in the file) is checked
before or right after loading, and reported as one ChatError that says what to do. Nothing is loaded in
another way than requested.
"""

from __future__ import annotations

import importlib.util
import logging
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from ...checkpoints.checkpoint import LOCAL, is_tested, load_whole
from ...errors import ChatError, boundary
from ...types import Value
from ..chat_template import RENDERER
from ..engine.settings import EngineSettings

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
FP8_CAPABILITY = (8, 9)
"""Minimum compute capability of NVIDIA GPUs that multiply 8-bit floats (Ada; Hopper is 9.0)."""


class BaseSettings(Value):
    """How a base model is loaded and decodes."""

    dtype: Literal["auto", "bfloat16", "float16", "float32"] = Field(
        default="auto", description="Model dtype. Default: that of the checkpoint."
    )
    device: str = Field(default="auto", description="Torch device. Default: the best one available.")
    quantization: Literal["8bit", "4bit", "fp8"] | None = Field(
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
    options |= {"attn_implementation": "sdpa"} if tested else {}
    if settings.quantization is not None:
        whole = NOT_QUANTIZED if tested else [*NOT_QUANTIZED, *OTHER_TOWERS]
        config = _quantization(settings.quantization, settings.device, whole)
        options |= {"quantization_config": config, "device_map": {"": settings.device}}
    model = load_whole(folder, **options)
    model.requires_grad_(False)
    if settings.engine.linear_patches and tested:
        from ..engine.qwen3_vl import use_linear_patches

        use_linear_patches(model)
    # Only the end tokens are from the checkpoint; every request has its own decoding settings.
    own = model.generation_config
    model.generation_config = transformers.GenerationConfig(
        eos_token_id=own.eos_token_id, pad_token_id=own.pad_token_id, bos_token_id=own.bos_token_id
    )
    return model


def _quantization(name: str, device: str, whole: list[str]) -> Any:
    """Return the library's quantization settings. `whole`: modules that are not quantized."""
    if name == "fp8":
        return _fp8(device, whole)
    _needs(name, "bitsandbytes", "accelerate")
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


def _fp8(device: str, whole: list[str]) -> Any:
    """Return settings for 8-bit float weights and activations, scaled by rows."""
    import torch

    place = torch.device(device)
    able = place.type == "cuda" and torch.cuda.is_available()
    if not able or torch.cuda.get_device_capability(place) < FP8_CAPABILITY:
        known = torch.cuda.get_device_name(place) if able else device
        raise ChatError(
            f"fp8 requires an NVIDIA GPU of the Ada, Hopper or a later generation, not {known}.",
            "Choose 8bit, 4bit, or no quantization.",
        )
    _needs("fp8", "torchao", "accelerate")
    from torchao.quantization import (  # pyright: ignore[reportMissingImports]
        Float8DynamicActivationFloat8WeightConfig,
        PerRow,
    )
    from transformers import TorchAoConfig

    config = Float8DynamicActivationFloat8WeightConfig(granularity=PerRow())
    return TorchAoConfig(config, modules_to_not_convert=whole)


def _needs(name: str, *libraries: str) -> None:
    for library in libraries:
        if importlib.util.find_spec(library) is None:
            raise ChatError(
                f"{name} quantization requires the library {library}.",
                f"Install it: pip install {library}",
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
