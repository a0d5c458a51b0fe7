"""Mage-Flow and Mage-Flow-Edit, which share a class and an encode node."""

from __future__ import annotations

from ..encode_node import EncodeNode, numbered
from ..family import ENCODE, NOISE, Compared, Family, Recommended

SOURCE = "Comfy-Org/Mage-Flow"
FILES = (
    ("text_encoders/qwen3vl_4b_bf16.safetensors", SOURCE),
    ("vae/mage_flow_vae_bf16.safetensors", SOURCE),
)
FAMILIES = (
    Family(
        name="Mage-Flow",
        models=("MageFlow",),
        method=NOISE,
        compared=Compared("identical", "image to image"),
        ran_in=("0.33.0",),
        clip_type="mage",
        files=FILES,
    ),
    Family(
        name="Mage-Flow-Edit",
        models=("MageFlow",),
        method=ENCODE,
        row=EncodeNode(
            "TextEncodeMageFlowEdit",
            numbered("image_", 1, 16, "images"),
            fit="steps",
            fits_references=False,
            negative="own output",
            latent="own output",
            mark="Image {}",
            draws_text=True,
            sized=True,
        ),
        compared=Compared("identical", "identical", "identical"),
        ran_in=("0.33.0",),
        clip_type="mage",
        files=(("diffusion_models/mage_flow_edit_int8_convrot.safetensors", SOURCE), *FILES),
        recommended=(Recommended(30, 5.0),),
    ),
)
