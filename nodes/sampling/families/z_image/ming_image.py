"""Ming-Image: the encode node puts the images into prompt and latent sequence."""

from __future__ import annotations

from ..encode_node import EncodeNode, numbered
from ..family import ENCODE, NOISE, Compared, Family, Recommended

SOURCE = "Comfy-Org/Ming-Image"
FILES = (
    ("diffusion_models/ming_image_0.1_design_int8_convrot.safetensors", SOURCE),
    ("text_encoders/ming_image_0.1_ling_mini_2.0_int8_convrot.safetensors", SOURCE),
    ("vae/ming_image_vae_bf16.safetensors", SOURCE),
)
FAMILIES = (
    Family(
        name="Ming-Image",
        models=("MingImage",),
        method=NOISE,
        compared=Compared("read", "image to image"),
        clip_type="qwen_image",
    ),
    Family(
        name="Ming-Image that edits",
        short="a Ming-Image that edits",
        models=("MingImage",),
        method=ENCODE,
        row=EncodeNode("TextEncodeMingImageEdit", numbered("image_", 1, 8, "images"), fit="steps"),
        compared=Compared("read", "read", "read"),
        clip_type="qwen_image",
        files=FILES,
        recommended=(Recommended(12, 1.0),),
    ),
)
