"""Qwen-Image-2.1: one node encodes both prompts and the images, and returns the latent."""

from __future__ import annotations

from ..encode_node import EncodeNode, numbered
from ..family import ENCODE, Compared, Family, Recommended

SOURCE = "Comfy-Org/Qwen-Image-2.1"

FAMILIES = (
    Family(
        name="Qwen-Image-2.1",
        license="Qwen Research: **no commercial use**",
        models=("QwenImage21",),
        method=ENCODE,
        row=EncodeNode(
            "TextEncodeQwenImage21",
            numbered("image_", 1, 10, "images"),
            fit="steps if needed",
            grid=32,
            negative="own output",
            latent="own output",
            mark="<image{}>",
            # The pack scales the images by the node's own rule, but never twice in a story.
            fixed=(("resolution", 0),),
            draws_text=True,
        ),
        compared=Compared("read", "read", "read"),
        clip_type="qwen_image",
        files=(
            ("diffusion_models/qwen_image_2.1_int8_convrot.safetensors", SOURCE),
            ("text_encoders/qwen3vl_8b_int8_convrot.safetensors", SOURCE),
            ("vae/qwen_image_2.1_vae_bf16.safetensors", SOURCE),
        ),
        recommended=(Recommended(25, 1.0),),
        enhancer="qwen3.5_9b_qwen_image_2.1_pe_t2i.int8_convrot, "
        "qwen3.5_9b_qwen_image_2.1_pe_i2i.int8_convrot",
        note="The template puts the node QwenImage21Cache between loader and sampler: device off rules the "
        "cache out, dtype int8 and int4 make it smaller. The turbo checkpoint needs the sigmas of its "
        "template on Step Options.",
    ),
)
