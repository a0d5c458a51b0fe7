"""FLUX 3 Image Klein: the host's node adds the images as reference latents to both conditionings."""

from __future__ import annotations

from ..encode_node import EncodeNode, numbered
from ..family import Compared, Family, Recommended

SOURCE = "black-forest-labs/flux-3-image-klein-comfy"

FAMILIES = (
    Family(
        name="FLUX 3 Image Klein",
        license="FLUX Kommunity: **no commercial use**",
        method="flux 3 klein",
        row=EncodeNode(
            "ReferenceMultiLatent",
            numbered("image", 0, 10, "images"),
            fit="steps if needed",
            latent="own output",
            mark="<ref_image_{}>",
            first_mark=0,
            # The pack scales the images, since the node would scale each result of a story again.
            fixed=(("resolution", {"resolution": "keep resolution"}),),
            after_text=True,
        ),
        compared=Compared("read", "read", "read"),
        clip_type="flux3",
        files=(
            ("diffusion_models/flux3-image-klein-int8-convrot.safetensors", SOURCE),
            ("diffusion_models/flux3-image-klein-base-int8-convrot.safetensors", SOURCE),
            ("text_encoders/qwen3vl_4b_int8_convrot.safetensors", SOURCE),
            ("vae/flux2-vae.safetensors", SOURCE),
        ),
        recommended=(
            Recommended(16, 1.0, variant="distilled"),
            Recommended(50, 4.0, variant="base"),
        ),
        enhancer="qwen3.5_9b_flux3_prompt_upsampler_w4a8",
        note="The maker says to use it always with the prompt upsampler.",
    ),
)
