"""MiniMax-H3-Image: one node encodes the prompt and the images, and returns a latent of its own."""

from __future__ import annotations

from ..encode_node import EncodeNode, numbered
from ..family import Compared, Family, Recommended

SOURCE = "Comfy-Org/MiniMax-H3-Image"

FAMILIES = (
    Family(
        name="MiniMax-H3-Image",
        license="MiniMax H3 Image: authorization needed above 1 million USD of revenue and for hosting",
        method="minimax h3 image",
        row=EncodeNode(
            "MiniMaxH3ImageConditioning",
            numbered("image_", 1, 16, "images"),
            fit="as it is",
            grid=32,
            latent="own output",
            mark="<Picture {}>",
            draws_text=True,
            sized=True,
        ),
        may_be=("MiniMaxH3",),
        vae_is_checked=False,
        compared=Compared("read", "read", "read"),
        files=(
            ("diffusion_models/minimax_h3_image_pruned_int8_convrot.safetensors", SOURCE),
            ("text_encoders/qwen3vl_32b_minimax_h3_int8_convrot.safetensors", SOURCE),
            ("vae/minimax_h3_image_vae_fp16.safetensors", SOURCE),
        ),
        recommended=(Recommended(6, 1.0),),
        enhancer="qwen3.5_9b_w4a8_gptq",
        note="Tuned for an area of 2048 x 2048 pixels. The video models of the MiniMaxH3 class are rejected.",
    ),
)
