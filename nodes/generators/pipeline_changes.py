"""What a graph lays over a diffusers pipeline, as inputs of its node: a LoRA, and a mask of what may change.

Decision: a LoRA is chosen among those in the host's folders, never written as a path. Both are named in the
draw's identity by their contents, so another mask or a LoRA that was trained on draws anew.
"""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io

from ...backend.errors import SettingsError
from .. import host
from ..inputs.images import mask_picture
from ..inputs.validation import in_range, only_text

NO_LORA = "none"
LORA_DEFAULTS: dict[str, Any] = {"lora": NO_LORA, "lora_scale": 1.0}
STRONGEST = 10.0


def changes_inputs() -> list[Any]:
    """The inputs, to stand after a node's own."""
    return [
        io.Combo.Input(
            "lora",
            options=[NO_LORA, *host.lora_names()],
            default=NO_LORA,
            optional=True,
            tooltip="LoRA laid over the pipeline: a file in models/loras, made for this very model.",
        ),
        io.Float.Input(
            "lora_scale",
            default=1.0,
            min=-STRONGEST,
            max=STRONGEST,
            step=0.05,
            optional=True,
            advanced=True,
            tooltip="How strongly the LoRA works: 1 as it was trained, 0 not at all.",
        ),
        io.Mask.Input(
            "mask",
            optional=True,
            tooltip="What an edit may change, for pipelines that repaint a part of an image (FLUX Fill). "
            "Others refuse it.",
        ),
    ]


def changes_options(mask: Any, lora: str = NO_LORA, lora_scale: float = 1.0) -> dict[str, Any]:
    """The inputs as options of `diffusers:FOLDER`. Raises SettingsError."""
    only_text("Diffusers Generator", lora=lora)
    in_range("Diffusers Generator", -STRONGEST, STRONGEST, lora_scale=lora_scale)
    options: dict[str, Any] = {}
    if lora != NO_LORA:
        file = host.lora_file(lora)
        if file is None:
            raise SettingsError(
                f"There is no LoRA {lora[:200]!r}.",
                "Put its .safetensors file into models/loras and press R.",
            )
        options = {"lora": str(file), "lora_scale": lora_scale}
    if mask is not None:
        options["mask"] = mask_picture(mask, "The mask of Diffusers Generator")
    return options
