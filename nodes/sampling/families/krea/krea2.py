"""Krea 2: image to image, or a LoRA that reads reference images through an encode node of the host."""

from __future__ import annotations

from ..encode_node import EncodeNode, numbered
from ..family import ENCODE, NOISE, Compared, Family, Recommended

SOURCE = "Comfy-Org/Krea-2"
LICENSE = "Krea 2 Community License"
FILES = (
    ("diffusion_models/krea2_turbo_fp8_scaled.safetensors", SOURCE),
    ("text_encoders/qwen3vl_4b_fp8_scaled.safetensors", SOURCE),
    ("vae/qwen_image_vae.safetensors", SOURCE),
)
TURBO = (Recommended(8, 1.0, variant="Turbo"),)
FAMILIES = (
    Family(
        name="Krea 2",
        license=LICENSE,
        models=("Krea2",),
        method=NOISE,
        compared=Compared("identical", "identical"),
        ran_in=("0.33.0",),
        clip_type="krea2",
        files=FILES,
        recommended=TURBO,
    ),
    Family(
        name="Krea 2 with a reference LoRA",
        short="Krea 2 with a LoRA that reads reference images",
        license=LICENSE,
        models=("Krea2",),
        method=ENCODE,
        row=EncodeNode(
            "TextEncodeQwenImageEditPlus",
            numbered("image", 1, 3),
            fit="as it is",
            mark="Picture {}",
            layout="index_timestep_zero",
        ),
        compared=Compared("identical", "no template", "identical"),
        ran_in=("0.33.0",),
        clip_type="krea2",
        files=(*FILES, ("loras/krea2_style_reference.safetensors", SOURCE)),
        recommended=TURBO,
    ),
)
