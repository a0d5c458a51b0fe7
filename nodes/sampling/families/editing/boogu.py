"""Boogu-Image and Boogu-Image-Edit, which share a class."""

from __future__ import annotations

from ..encode_node import EncodeNode, numbered
from ..family import ENCODE, NOISE, Compared, Family, Recommended

FILES = (
    ("text_encoders/qwen3vl_8b_fp8_scaled.safetensors", "Comfy-Org/Qwen3-VL"),
    ("vae/ae.safetensors", "Comfy-Org/HiDream-I1_ComfyUI"),
)
FAMILIES = (
    Family(
        name="Boogu-Image",
        models=("Boogu",),
        method=NOISE,
        compared=Compared("identical", "image to image"),
        ran_in=("0.33.0",),
        clip_type="boogu",
        files=FILES,
    ),
    Family(
        name="Boogu-Image-Edit",
        models=("Boogu",),
        method=ENCODE,
        row=EncodeNode(
            "TextEncodeBooguEdit",
            numbered("image_", 1, 16, "images"),
            fit="as it is",
            grid=8,
            negative="own output",
        ),
        compared=Compared("identical", "identical", "as documented"),
        ran_in=("0.33.0",),
        clip_type="boogu",
        files=(
            ("diffusion_models/boogu_image_edit_fp8_scaled.safetensors", "Comfy-Org/Boogu-Image"),
            *FILES,
        ),
        recommended=(Recommended(25, 3.5, "dpmpp_2m"),),
    ),
)
