"""A tiny CONTROL_NET with random weights, and a socket type that fits every other."""

from __future__ import annotations

from typing import Any

import comfy.cldm.cldm
import comfy.controlnet
import comfy.model_management
import comfy.ops
import torch

from .tiny_weights import random_weights


def control_net(unet: dict[str, Any], seed: int = 8) -> Any:
    """A CONTROL_NET for the tiny diffusion model of this configuration."""
    sizes = {name: value for name, value in unet.items() if name != "out_channels"}
    with torch.inference_mode(False):
        model = comfy.cldm.cldm.ControlNet(
            hint_channels=3, num_heads=8, dtype=torch.float32, operations=comfy.ops.manual_cast, **sizes
        )
        model.load_state_dict(random_weights(model, seed=seed, gains={"zero_convs": 2.0}))
    return comfy.controlnet.ControlNet(model, load_device=comfy.model_management.get_torch_device())


class AnyKind(str):
    """A socket type that equals every other."""

    __slots__ = ()

    def __ne__(self, other: object) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__
