"""Reads a checkpoint's weights and processor from its folder, onto a device and in a number format.

Decision: everything that can be missing (a library, a card that knows the format, a weight in the file) is
looked for before or right after loading and is one ChatError that says what to do; nothing is loaded in
another way than was asked for.
"""

from __future__ import annotations

import importlib.util
import logging
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from ...checkpoints.families import is_tested
from ...checkpoints.loaded import LOCAL, load_whole
from ...errors import ChatError, boundary
from ...types import Value
from ..chat_template import RENDERER
from ..engine.settings import EngineSettings

# The vision tower and the output layer lose the most by quantisation and weigh the least. (Module names as
# they stand in the model: a bare "visual" is silently ignored.)
NOT_QUANTIZED = ["model.visual", "lm_head"]
OTHER_TOWERS = [
    "model.vision_tower",
    "model.vision_model",
    "model.multi_modal_projector",
    "model.connector",
    "model.embed_vision",
]
"""As untested families call theirs."""
PROCESSOR_FILES = {
    "image processor": ("preprocessor_config.json", "processor_config.json"),
    "tokenizer": ("tokenizer.json", "tokenizer.model", "vocab.json", "tekken.json", "*.tiktoken", "*.model"),
}
COPY = "Copy the processor's files (*.json, *.jinja) from its base model into the folder."
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


def load_model(folder: Path, settings: BaseSettings, family: object) -> Any:
    """The model, in main memory; if it is quantised, on the device. `family`: as its configuration says.
    Raises ChatError."""
    import transformers

    if not hasattr(transformers, "Qwen3VLForConditionalGeneration"):
        raise ChatError(
            f"transformers {transformers.__version__} does not know Qwen3-VL.",
            "Install 5.0 or newer: pip install -U transformers",
        )
    tested = is_tested(family)
    options: dict[str, Any] = {"dtype": settings.dtype}
    # Of other families only the library knows what each of them can be computed with.
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
    # Only what ends a reply is the checkpoint's; how to decode comes with every request.
    own = model.generation_config
    model.generation_config = transformers.GenerationConfig(
        eos_token_id=own.eos_token_id, pad_token_id=own.pad_token_id, bos_token_id=own.bos_token_id
    )
    return model


def _quantization(name: str, device: str, whole: list[str]) -> Any:
    """`whole`: the modules that keep their numbers."""
    if name == "fp8":
        return _fp8(device, whole)
    _needs(name, "bitsandbytes", "accelerate")
    import torch
    from transformers import BitsAndBytesConfig

    if name == "8bit":
        # It says at every product that 16 bits of another kind become float16, thousands of times a reply.
        logging.getLogger("bitsandbytes.autograd._functions").setLevel(logging.ERROR)
        return BitsAndBytesConfig(load_in_8bit=True, llm_int8_skip_modules=whole)
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=torch.bfloat16,
        llm_int8_skip_modules=whole,
    )


def _fp8(device: str, whole: list[str]) -> Any:
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
    return TorchAoConfig(config, modules_to_not_convert=whole)


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
            "An agent's image processor needs torchvision.", "Install it: pip install torchvision"
        )
    RENDERER.start()
    # Of a folder without a tokenizer the library would make one that knows no word.
    for what, names in PROCESSOR_FILES.items():
        if not any(True for name in names for _ in folder.glob(name)):
            raise ChatError(f"Processor of {str(folder)!r}: there is no {what} ({names[0]}).", COPY)
    from transformers import AutoProcessor

    with boundary(ChatError, f"Processor of {str(folder)!r}"):
        processor = AutoProcessor.from_pretrained(str(folder), **LOCAL)
    if getattr(processor, "image_processor", None) is None:
        raise ChatError(f"{str(folder)!r} has no image processor.", COPY)
    if getattr(processor, "chat_template", None) is None:
        raise ChatError(
            f"{str(folder)!r} has no chat template, so nobody can say how it is asked.",
            f"Is chat_template.jinja there? {COPY} A base model that was not taught to answer has none.",
        )
    return processor
