"""Inputs shared by the nodes for diffusers pipelines and image services."""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io

from ....backend.errors import SettingsError
from ...inputs.validation import in_range

OWN = -1.0
TO_LOOP = "Connect it to a Critic Loop."


def common_inputs(whose: str) -> list[io.Input]:
    """Return the inputs of size, steps, guidance and negative prompt.

    `whose` names the owner of the automatic values in the tooltips, such as "the pipeline".
    """
    return [
        io.Int.Input(
            "width",
            default=0,
            min=0,
            max=8192,
            step=16,
            tooltip=f"Width in pixels. 0 = automatic: the source image's width, else the default of {whose}.",
        ),
        io.Int.Input(
            "height",
            default=0,
            min=0,
            max=8192,
            step=16,
            tooltip="Height in pixels. 0 = automatic: the source image's height, else the default of "
            f"{whose}.",
        ),
        io.Int.Input(
            "steps",
            default=0,
            min=0,
            max=1000,
            tooltip=f"Sampling steps. 0 = automatic: the default of {whose}.",
        ),
        io.Float.Input(
            "guidance",
            default=OWN,
            min=OWN,
            max=100.0,
            step=0.1,
            round=0.01,
            tooltip=f"Guidance scale. -1 = automatic: the default of {whose}.",
        ),
        io.String.Input(
            "negative",
            default="",
            optional=True,
            advanced=True,
            tooltip="Negative prompt: what must not appear in the image.",
        ),
    ]


def common_options(
    width: int, height: int, steps: int, guidance: float, negative: str = ""
) -> dict[str, Any]:
    """Return the common inputs as options of the generators; `None` for their default.

    Raises:
        SettingsError: A value is out of range, or only one of width and height is set.
    """
    in_range("The generator", 0, 8192, width=width, height=height)
    in_range("The generator", 0, 1000, steps=steps)
    in_range("The generator", OWN, 100, guidance=guidance)
    if bool(width) != bool(height):
        raise SettingsError(
            f"Only one of width and height is set ({width} x {height}).", "Set both, or leave both at 0."
        )
    return {
        "size": f"{width}x{height}" if width else None,
        "steps": steps or None,
        "guidance": None if guidance < 0 else guidance,
        "negative": negative or None,
    }
