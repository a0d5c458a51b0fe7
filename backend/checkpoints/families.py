"""The families of vision-language models that can be agents.

Tested families are decoded by this package's own engine. Other families are used through the installed
library's `generate` as soon as the library supports them, and are labeled untested. The rules for folders are
the same: safetensors only, no code. When a model is opened, the library's own list of families decides. Lists
of folders use the configuration alone, because they are made at every start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import ChatError

TESTED = ("qwen3_vl", "qwen3_vl_moe")
"""Families that the engine supports, as named by `model_type` in config.json."""
WRITERS = ("ForConditionalGeneration", "ForCausalLM", "ForImageTextToText")
"""Parts of the names of model classes that generate text."""
MERGE = 2
"""llama.cpp's Qwen3-VL always joins blocks of 2 by 2 patches, and does not read the number from the file."""


def is_tested(family: object) -> bool:
    """Return whether this package's engine and tests cover the family."""
    return family in TESTED


def looks_like_an_agent(config: object) -> bool:
    """Return whether a config.json describes a model that reads images and writes text.

    The check is fast. It does not guarantee that the model can be loaded.
    """
    if not isinstance(config, Mapping):
        return False
    if str(config.get("model_type", "")).startswith(TESTED[0]):
        return True
    classes = config.get("architectures")
    named = classes if isinstance(classes, list) else []
    writes = any(part in str(name) for name in named[:4] for part in WRITERS)
    return writes and isinstance(config.get("vision_config"), Mapping)


def check_family(family: Any, where: str) -> None:
    """Check that the installed transformers library supports a family.

    Args:
        family: Family, as in `model_type`.
        where: Name of the checkpoint for error messages.

    Raises:
        ChatError: The library does not support it.
    """
    if is_tested(family):
        return
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    if family not in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
        raise ChatError(
            f"{where} is a {str(family)[:60]!r} checkpoint, which the installed transformers library does "
            "not support "
            f"as a vision-language model. Recommended: {TESTED[0]}.",
            "Update transformers, or run the model with a server (openai:MODEL@URL) or llamacpp:FILE.",
        )


def joined_patches(config: Mapping[str, Any]) -> int:
    """Return how many patches in a row and column a model joins, 2 if its configuration does not say it."""
    vision = config.get("vision_config")
    return vision.get("spatial_merge_size", MERGE) if isinstance(vision, dict) else MERGE


def runs_in_llamacpp(config: Mapping[str, Any]) -> bool:
    """Return whether llama.cpp computes the same result as transformers for a model's configuration."""
    return not str(config.get("model_type")).startswith("qwen3_vl") or joined_patches(config) == MERGE
