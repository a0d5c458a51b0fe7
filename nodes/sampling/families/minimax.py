"""Still-image models of the MiniMax H3 family: one node encodes prompt and images, and returns the latent."""

from __future__ import annotations

from .family import Compared, EncodeNode, Family, Recommended, numbered

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
    # By Pruna. Its latent also has audio parts, which the Step Generator cannot sample.
    Family(
        name="p-h3-image",
        method=None,
        images=9,
        compared=Compared("read", "read", "read"),
        note="Its latent has audio parts, which the Step Generator does not sample. Node "
        "PH3ImageConditioning, prompts with <Picture 1>, MiniMax H3 Sigma Shift with both values at 1. "
        "Files in PrunaAI/P-H3-Image-Comfy.",
    ),
)
