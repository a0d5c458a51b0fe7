"""MOSS-Image with its edit LoRA: the images reach the model as reference latents only."""

from __future__ import annotations

from ..encode_node import EncodeNode, numbered
from ..family import Compared, Family, Recommended

SOURCE = "Comfy-Org/MOSS-Image"

FAMILIES = (
    Family(
        name="MOSS-Image with its edit LoRA",
        license="Apache-2.0",
        method="moss image edit",
        row=EncodeNode(
            "TextEncodeMOSSImageEdit",
            numbered("image_", 0, 9, "images"),
            fit="steps",
            fixed=(("edit_format", "Moss-Image-Edit"), ("image_strength", 1.0)),
        ),
        compared=Compared("read", "read", "read"),
        clip_type="moss_image",
        files=(
            ("diffusion_models/moss_image_sft_int8_convrot.safetensors", SOURCE),
            ("loras/moss_image_edit_lora_rank_64_bf16.safetensors", SOURCE),
            ("text_encoders/qwen3.5_9b_w4a8_gptq.safetensors", SOURCE),
            ("vae/flux2-vae_small.safetensors", SOURCE),
        ),
        recommended=(
            Recommended(30, 4.0, scheduler="normal"),
            Recommended(25, 2.5, "er_sde", variant="text to image without the LoRA"),
        ),
        enhancer="qwen3.5_9b_w4a8_gptq, its own text encoder",
        note="The template patches the model with SkipLayerGuidanceDiTSimple, single layer 22.",
    ),
)
