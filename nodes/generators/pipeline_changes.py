"""Inputs that modify a diffusers pipeline: a LoRA, and a mask of the part that may change.

A LoRA is chosen from the host's folders, never given as a path. Both are part of the identity of an image by
their content, so with another mask or a retrained LoRA the images are generated again.
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
    """Return the inputs, which follow a node's own."""
    return [
        io.Combo.Input(
            "lora",
            options=[NO_LORA, *host.lora_names()],
            default=NO_LORA,
            optional=True,
            tooltip="LoRA for the pipeline: a file in models/loras, trained for this model.",
        ),
        io.Float.Input(
            "lora_scale",
            default=1.0,
            min=-STRONGEST,
            max=STRONGEST,
            step=0.05,
            optional=True,
            advanced=True,
            tooltip="Strength of the LoRA. 1: as trained. 0: no effect.",
        ),
        io.Mask.Input(
            "mask",
            optional=True,
            tooltip="Part of the image that an edit may change (white). Only for inpainting pipelines, such "
            "as FLUX Fill; others report an error.",
        ),
    ]


def changes_options(mask: Any, lora: str = NO_LORA, lora_scale: float = 1.0) -> dict[str, Any]:
    """Return the inputs as options of `diffusers:FOLDER`.

    Raises:
        SettingsError: The LoRA was not found, or a value is not valid.
    """
    only_text("Diffusers Generator", lora=lora)
    in_range("Diffusers Generator", -STRONGEST, STRONGEST, lora_scale=lora_scale)
    options: dict[str, Any] = {}
    if lora != NO_LORA:
        file = host.lora_file(lora)
        if file is None:
            raise SettingsError(
                f"Diffusers Generator: the LoRA {lora[:200]!r} was not found.",
                "Put its .safetensors file into models/loras and press R, or choose another one.",
            )
        options = {"lora": str(file), "lora_scale": lora_scale}
    if mask is not None:
        options["mask"] = mask_picture(mask, "The mask of Diffusers Generator")
    return options
