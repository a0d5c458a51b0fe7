"""LongCat-Image and LongCat-Image-Edit, which share a class."""

from __future__ import annotations

from ..encode_node import EncodeNode, ImageInputs
from ..family import ENCODE, NOISE, Compared, Family, Recommended

FILES = (
    ("text_encoders/qwen_2.5_vl_7b_fp8_scaled.safetensors", "Comfy-Org/Qwen-Image_ComfyUI"),
    ("vae/ae.safetensors", "Comfy-Org/z_image_turbo"),
)
FAMILIES = (
    Family(
        name="LongCat-Image",
        models=("LongCatImage",),
        method=NOISE,
        compared=Compared("identical", "identical"),
        ran_in=("0.33.0",),
        clip_type="longcat_image",
        files=FILES,
    ),
    Family(
        name="LongCat-Image-Edit",
        models=("LongCatImage",),
        method=ENCODE,
        row=EncodeNode(
            "TextEncodeQwenImageEdit", ImageInputs(("image",)), fit="steps", latent="source", layout="index"
        ),
        compared=Compared("identical", "identical"),
        ran_in=("0.33.0",),
        clip_type="longcat_image",
        files=(
            (
                "diffusion_models/longcat_image_edit_bf16.safetensors",
                "TalmajM/LongCat-Image-Edit_ComfyUI_repackaged",
            ),
            *FILES,
        ),
        recommended=(Recommended(50, 4.5),),
    ),
)
