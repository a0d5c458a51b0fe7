"""JoyAI-Image-Edit."""

from __future__ import annotations

from ..encode_node import EncodeNode, numbered
from ..family import ENCODE, Compared, Family, Recommended

SOURCE = "Comfy-Org/JoyAI-Image-Edit"

FAMILIES = (
    Family(
        name="JoyAI-Image-Edit",
        license="Apache-2.0",
        models=("JoyImage",),
        method=ENCODE,
        row=EncodeNode(
            "TextEncodeJoyImageEdit",
            numbered("image", 0, 6, "images"),
            fit="steps",
            scaling="nearest-exact",
        ),
        compared=Compared("no template", "identical", "as documented"),
        ran_in=("0.33.0",),
        clip_type="joyimage",
        files=(
            ("diffusion_models/joyai_image_edit_int8_convrot.safetensors", SOURCE),
            ("text_encoders/qwen3vl_8b_joyimage_edit_int8_convrot.safetensors", SOURCE),
            ("vae/wan_2.1_vae.safetensors", SOURCE),
        ),
        recommended=(Recommended(40, 4.0, scheduler="normal"),),
    ),
)
