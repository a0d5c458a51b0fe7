"""Which families of vision-language models are agents: those that are tested with this pack, and those that
the installed library can read.

Decision: a new family is usable on the day the library knows it, through the library's own `generate`, and is
called untested wherever it is used. What a folder may hold is the same for all: safetensors, no code. The
list of what can be read is the library's own, asked when a model is opened; a list of folders goes by the
configuration alone, since it is made at every start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import ChatError

TESTED = ("qwen3_vl", "qwen3_vl_moe")
"""Families that the engine decodes, as config.json names them (`model_type`)."""
WRITERS = ("ForConditionalGeneration", "ForCausalLM", "ForImageTextToText")
"""Parts of the names of classes that write."""


def is_tested(family: object) -> bool:
    """Whether this pack's own engine and tests know the family."""
    return family in TESTED


def looks_like_an_agent(config: object) -> bool:
    """Whether a config.json describes a model that sees images and writes; cheap, and no promise that it can
    be read."""
    if not isinstance(config, Mapping):
        return False
    if str(config.get("model_type", "")).startswith(TESTED[0]):
        return True
    classes = config.get("architectures")
    named = classes if isinstance(classes, list) else []
    writes = any(part in str(name) for name in named[:4] for part in WRITERS)
    return writes and isinstance(config.get("vision_config"), Mapping)


def check_family(family: Any, where: str) -> None:
    """Raise ChatError, naming `where` it stands, unless the installed transformers reads such models."""
    if is_tested(family):
        return
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    if family not in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
        raise ChatError(
            f"{where} is a {str(family)[:60]!r} checkpoint, which the installed transformers does not read "
            f"as a model that sees images and writes; agents are best {TESTED[0]}.",
            "Update transformers, or use the model through a server: openai:MODEL@URL, or llamacpp:FILE.",
        )
