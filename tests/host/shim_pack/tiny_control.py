"""Nodes for Step Options: a tiny CONTROL_NET with random weights, and an output of type "any"."""

from __future__ import annotations

from typing import Any

import comfy.cldm.cldm
import comfy.controlnet
import comfy.model_management
import comfy.ops
import torch

from .tiny_families import UNET
from .tiny_weights import random_weights


class TinyControlNet:
    """A ControlNet for Stable Diffusion 1; created for every run, like by a loader."""

    CATEGORY = "InterleaveThinker tests"
    FUNCTION = "load"
    RETURN_TYPES = ("CONTROL_NET",)

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {"required": {"seed": ("INT", {"default": 8})}}

    def load(self, seed: int) -> tuple[Any]:
        return (control_net(UNET, seed),)


def control_net(unet: dict[str, Any], seed: int = 8) -> Any:
    """A CONTROL_NET for the tiny diffusion model of this configuration."""
    sizes = {name: value for name, value in unet.items() if name != "out_channels"}
    with torch.inference_mode(False):
        model = comfy.cldm.cldm.ControlNet(
            hint_channels=3, num_heads=8, dtype=torch.float32, operations=comfy.ops.manual_cast, **sizes
        )
        model.load_state_dict(random_weights(model, seed=seed, gains={"zero_convs": 2.0}))
    device = comfy.model_management.get_torch_device()
    return comfy.controlnet.ControlNet(model, load_device=device)


class AnyKind(str):
    """A socket type that equals every other."""

    __slots__ = ()

    def __ne__(self, other: object) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


class Anything:
    """An output that fits every socket, as some packs have: a text, or sigmas of NaN."""

    CATEGORY = "InterleaveThinker tests"
    FUNCTION = "give"
    RETURN_TYPES = (AnyKind("*"),)

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {"required": {"kind": (["text", "nan"],)}}

    def give(self, kind: str) -> tuple[Any]:
        return ("a text" if kind == "text" else torch.full((3,), float("nan")),)


CONTROL_NODES: dict[str, type] = {
    "InterleaveTestAnything": Anything,
    "InterleaveTestControlNet": TinyControlNet,
}
