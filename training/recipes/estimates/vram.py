"""Estimates the memory of a training on each device, from the model's shape and the recipe.

The model is built on the meta device, frozen and given its adapters by the same code that trains it, so the
counted parameters are those that are trained. Weights, gradients and AdamW's two moments follow exactly from
these; activations from the usual formula with and without checkpointing; the cache of generation from the
shape. The result is an estimate, not a measurement: fragmentation and libraries take a few GB more.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ....backend.vram.footprint import GB, NF4_DOUBLE
from ...grpo.planner_settings import PlannerGrpoTraining
from ...grpo.settings import GrpoTraining
from ...sft.train import SftTraining
from ...trainer.model_loading import ModelTraining, adapter_config, empty_model
from ...trainer.model_parts import ModelParts

PROMPT_TOKENS, PLANNER_PROMPT_TOKENS = 512, 1024
"""Text tokens of a critic's and a planner's prompt (the built-in templates have 288 tokens and 579 words)."""
AROUND = ("embeddings", "output layer", "language, last norm")
CHUNK_LOGITS = 1024
"""Positions whose logits are in memory at the same time; trl's fused head works in chunks."""
Stage = SftTraining | GrpoTraining
"""Settings of any stage."""


def meta_model(config: Any, settings: ModelTraining) -> Any:
    """Return the model on the meta device, frozen and with adapters according to the settings."""
    import torch

    model = empty_model(config)
    if settings.freeze_vision:
        ModelParts(model).freeze_seeing()
    adapter = adapter_config(settings, model)
    if adapter is None:
        return model
    from peft import get_peft_model

    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft reads an attribute that transformers renamed
        return get_peft_model(model, adapter, low_cpu_mem_usage=True)


def groups(model: Any) -> dict[str, tuple[int, int]]:
    """Return (trained parameters, all parameters) of each part of the model."""
    trained: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    parts = parts_of(model)
    for name, weight in model.named_parameters():
        part = parts.part_of(name)
        whole[part] += weight.numel()
        trained[part] += weight.numel() if weight.requires_grad else 0
    return {part: (trained[part], whole[part]) for part in whole}


@dataclass(frozen=True)
class Shape:
    """The model and the settings that decide its parameters. Equal shapes have equal parameters."""

    described: str
    lora_r: int
    freeze_vision: bool
    config: Any = field(compare=False)
    settings: ModelTraining = field(compare=False)


@dataclass(frozen=True)
class Counted:
    """Parameters of a model with its adapters."""

    parts: Mapping[str, tuple[int, int]]
    """(trained, all) of each part."""
    matrices: int
    """Parameters of the language layers' matrices, which a 4-bit base quantizes."""


def counted(config: Any, settings: ModelTraining) -> Counted:
    """Count the parameters of the model that a training with these settings has.

    The stages of a recipe share counts, because a LoRA of all layers takes a second to create for each.
    """
    shape = Shape(config.to_json_string(), settings.lora_r, settings.freeze_vision, config, settings)
    return _counted(shape)


@lru_cache(maxsize=16)
def _counted(shape: Shape) -> Counted:
    model = meta_model(shape.config, shape.settings)
    parts = parts_of(model)
    layers = (weight for name, weight in model.named_parameters() if parts.part_of(name) == "language layers")
    return Counted(groups(model), sum(weight.numel() for weight in layers if weight.dim() == 2))


def parts_of(model: Any) -> ModelParts:
    """Return the parts of a model, which may have adapters."""
    return ModelParts(model.get_base_model() if hasattr(model, "get_base_model") else model)


@dataclass(frozen=True)
class Memory:
    """Memory on each device in bytes, by purpose, with the numbers of trained and of all parameters."""

    parts: Mapping[str, float]
    trained: int
    whole: int

    @property
    def total(self) -> float:
        """Bytes in total."""
        return sum(self.parts.values())


def estimate(config: Any, settings: Stage, devices: int = 1, vram: float = 80 * GB) -> Memory:
    """Estimate the memory on each device.

    Args:
        config: Configuration of the model.
        settings: Settings of the training.
        devices: Number of devices; several share weights and optimizer (FSDP2 or ZeRO-3).
        vram: VRAM of each device, in bytes.
    """
    found = counted(config, settings)
    trained, whole = (sum(numbers) for numbers in zip(*found.parts.values(), strict=True))
    quantised = found.matrices if settings.load_in_4bit else 0
    full = settings.lora_r == 0
    held = 4.0 if full or not settings.bf16 else 2.0
    text = config.get_text_config()
    tokens, sequences = _tokens(config, settings)
    layers, width = text.num_hidden_layers, text.hidden_size
    active = 2.0 if settings.bf16 else 4.0
    moments = 2.0 if settings.optim == "adamw_8bit" else 8.0
    parts = {
        "weights": ((whole - quantised - trained) * held + quantised * NF4_DOUBLE + trained * 4.0) / devices,
        "gradients": trained * 4.0 / devices,
        "optimizer": trained * moments / devices,
        "activations": _activations(
            tokens * sequences, layers, width, text.intermediate_size, active, _is_twice(settings)
        ),
        "logits": min(tokens * sequences, CHUNK_LOGITS) * text.vocab_size * 4.0 * 3,
    }
    if not settings.freeze_vision:
        vision = config.vision_config
        patches = _image_tokens_in(config, settings) * sequences * _merge(config) ** 2
        parts["activations of the vision tower"] = _activations(
            patches,
            _first(vision, "depth", "num_hidden_layers"),
            vision.hidden_size,
            vision.intermediate_size,
            active,
            _is_twice(settings),
        )
    if devices == 1 and full and settings.bf16:
        parts["weights in bf16 (autocast)"] = whole * 2.0
    if devices > 1:
        # FSDP gathers one layer at a time and prefetches the next; embeddings and output layer are one unit.
        around = sum(both for part, (_, both) in found.parts.items() if part in AROUND)
        parts["gathered from the other devices"] = active * (2 * (whole - around) / max(1, layers) + around)
    if isinstance(settings, GrpoTraining):
        each = cache_bytes_per_token(config)
        answers = settings.prompts * settings.num_generations / devices
        if settings.use_vllm and settings.vllm_mode == "colocate":
            parts["vLLM (its share of the VRAM)"] = settings.vllm_gpu_memory_utilization * vram
        else:
            parts["cache of generation"] = answers * tokens * each * active / 2
        if settings.beta and full:
            parts["reference model"] = whole * 4.0 / devices
    return Memory(parts, trained, whole)


def image_tokens(config: Any, pixels: int) -> int:
    """Return the tokens of an image with this area in pixels."""
    side = config.vision_config.patch_size
    side = side if isinstance(side, int) else side[0]
    return pixels // (side * _merge(config)) ** 2


def _merge(config: Any) -> int:
    """Return the number of patches, along one side, that are merged into one token."""
    ratio = getattr(config, "downsample_ratio", None)
    if ratio:
        return round(1 / ratio)
    merge = getattr(config.vision_config, "spatial_merge_size", None) or getattr(config, "scale_factor", None)
    return merge or 1


def cache_bytes_per_token(config: Any) -> int:
    """Return the bytes of one token in a 16-bit key/value cache.

    Layers with a recurrent state of fixed size do not count.
    """
    text = config.get_text_config()
    kinds = getattr(text, "layer_types", None) or ["full_attention"] * text.num_hidden_layers
    layers = sum("linear" not in kind for kind in kinds)
    width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    return layers * heads * width * 2 * 2


def _first(config: Any, *names: str) -> int:
    """Return the first of these fields that the configuration has."""
    return next(int(value) for name in names if (value := getattr(config, name, None)) is not None)


def question_tokens(config: Any, settings: Stage) -> int:
    """Return the tokens of a typical prompt: a critic's with two images, or a planner's with one."""
    words = PLANNER_PROMPT_TOKENS if isinstance(settings, PlannerGrpoTraining) else PROMPT_TOKENS
    return _image_tokens_in(config, settings) + words


def _image_tokens_in(config: Any, settings: Stage) -> int:
    """Return the image tokens of a row: two images for a critic, one for a planner."""
    images = 1 if isinstance(settings, PlannerGrpoTraining) else 2
    return images * image_tokens(config, settings.image_pixels)


def _tokens(config: Any, settings: Stage) -> tuple[int, int]:
    """Return (tokens of the longest row, rows per forward pass)."""
    if isinstance(settings, SftTraining):
        return settings.max_length, settings.per_device_train_batch_size
    return question_tokens(
        config, settings
    ) + settings.max_completion_length, settings.per_device_train_batch_size


def _is_twice(settings: ModelTraining) -> bool:
    """Return whether activations are recomputed in the backward pass, as the trainer does on a GPU."""
    return settings.gradient_checkpointing and settings.device != "cpu"


def _activations(
    tokens: int, layers: int, width: int, inner: int, active: float, checkpointing: bool
) -> float:
    """Return the bytes of activations stored for the backward pass.

    With checkpointing these are one hidden state per layer and all activations of one layer, otherwise all
    activations (Korthikanti et al., 2022, without the attention matrix, which fused attention does not
    store).
    """
    layer = tokens * active * (10 * width + 3 * inner)
    if checkpointing:
        return tokens * active * width * layers + layer
    return layer * layers
