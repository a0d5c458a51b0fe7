"""Reads a Qwen3-VL checkpoint's weights and processor from its folder, onto a device and in a number format.

Decision: everything that can be missing (a library, a card that knows the format, a weight in the file) is
looked for before or right after loading and is one ChatError that says what to do; nothing is loaded in
another way than was asked for.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from ...errors import ChatError, boundary
from ...types import Value
from ..engine.settings import EngineSettings

# The vision tower and the output layer lose the most by quantisation and weigh the least. (Module names as
# they stand in the model: a bare "visual" is silently ignored.)
NOT_QUANTIZED = ["model.visual", "lm_head"]
FP8_CAPABILITY = (8, 9)
"""Compute capability from which NVIDIA cards multiply 8-bit floating point (Ada; Hopper is 9.0)."""


class BaseSettings(Value):
    """How a base model is loaded and decodes."""

    dtype: Literal["auto", "bfloat16", "float16", "float32"] = Field(
        default="auto", description="Number type; auto is the checkpoint's."
    )
    device: str = Field(default="auto", description="As torch names it; auto is the best there is.")
    quantization: Literal["8bit", "4bit", "fp8"] | None = Field(
        default=None, description="Fewer bits for the language model's weights."
    )
    engine: EngineSettings = Field(default=EngineSettings(), description="What makes it answer sooner.")


def load_model(folder: Path, settings: BaseSettings) -> Any:
    """The model, in main memory; if it is quantised, on the device. Raises ChatError."""
    import transformers

    if not hasattr(transformers, "Qwen3VLForConditionalGeneration"):
        raise ChatError(
            f"transformers {transformers.__version__} does not know Qwen3-VL.",
            "Install 5.0 or newer: pip install -U transformers",
        )
    options: dict[str, Any] = {
        "dtype": settings.dtype,
        "attn_implementation": "sdpa",
        "use_safetensors": True,
    }
    if settings.quantization is not None:
        config = _quantization(settings.quantization, settings.device)
        options |= {"quantization_config": config, "device_map": {"": settings.device}}
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
    model.requires_grad_(False)
    if settings.engine.linear_patches:
        from ..engine.qwen3_vl import use_linear_patches

        use_linear_patches(model)
    # Only what ends a reply is the checkpoint's; how to decode comes with every request.
    own = model.generation_config
    model.generation_config = transformers.GenerationConfig(
        eos_token_id=own.eos_token_id, pad_token_id=own.pad_token_id, bos_token_id=own.bos_token_id
    )
    return model


@contextmanager
def _without_progress_bars() -> Iterator[None]:
    """Without the library's bars on the screen, where our own progress is shown."""
    from transformers.utils import logging as library

    shown = library.is_progress_bar_enabled()
    library.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            library.enable_progress_bar()


def _quantization(name: str, device: str) -> Any:
    if name == "fp8":
        return _fp8(device)
    _needs(name, "bitsandbytes", "accelerate")
    import torch
    from transformers import BitsAndBytesConfig

    if name == "8bit":
        # It says at every product that 16 bits of another kind become float16, thousands of times a reply.
        logging.getLogger("bitsandbytes.autograd._functions").setLevel(logging.ERROR)
        return BitsAndBytesConfig(load_in_8bit=True, llm_int8_skip_modules=NOT_QUANTIZED)
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=torch.bfloat16,
        llm_int8_skip_modules=NOT_QUANTIZED,
    )


def _fp8(device: str) -> Any:
    """Weights and activations in 8-bit floating point, scaled by rows, where the card multiplies them."""
    import torch

    place = torch.device(device)
    able = place.type == "cuda" and torch.cuda.is_available()
    if not able or torch.cuda.get_device_capability(place) < FP8_CAPABILITY:
        known = torch.cuda.get_device_name(place) if able else device
        raise ChatError(
            f"fp8 needs an NVIDIA card of the Ada, Hopper or a later generation; this is {known}.",
            "Choose 8bit, 4bit, or no quantization.",
        )
    _needs("fp8", "torchao", "accelerate")
    from torchao.quantization import (  # pyright: ignore[reportMissingImports]
        Float8DynamicActivationFloat8WeightConfig,
        PerRow,
    )
    from transformers import TorchAoConfig

    config = Float8DynamicActivationFloat8WeightConfig(granularity=PerRow())
    return TorchAoConfig(config, modules_to_not_convert=list(NOT_QUANTIZED))


def _needs(name: str, *libraries: str) -> None:
    for library in libraries:
        if importlib.util.find_spec(library) is None:
            raise ChatError(
                f"{name} quantization needs the library {library}.", f"Install it: pip install {library}"
            )


def load_processor(folder: Path) -> Any:
    """Tokenizer, image processor and chat template. Raises ChatError."""
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
