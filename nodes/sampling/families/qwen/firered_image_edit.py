"""FireRed-Image-Edit: class and node of Qwen-Image-Edit-2509, but the image is scaled to the set area."""

from __future__ import annotations

from ..encode_node import EncodeNode, numbered
from ..family import Compared, Family, Recommended

FAMILIES = (
    Family(
        name="FireRed-Image-Edit",
        of="a Qwen-Image model",
        models=("QwenImage",),
        method="firered image edit",
        row=EncodeNode(
            "TextEncodeQwenImageEditPlus",
            numbered("image", 1, 3),
            fits_references=False,
            latent="source",
            mark="Picture {}",
        ),
        compared=Compared("identical", "identical", "identical"),
        ran_in=("0.14.1", "0.33.0"),
        clip_type="qwen_image",
        files=(
            (
                "diffusion_models/FireRed-Image-Edit-1.1-transformer.safetensors",
                "FireRedTeam/FireRed-Image-Edit-1.1-ComfyUI",
            ),
            (
                "text_encoders/qwen_2.5_vl_7b_fp8_scaled.safetensors",
                "Comfy-Org/HunyuanVideo_1.5_repackaged",
            ),
            ("vae/qwen_image_vae.safetensors", "FireRedTeam/FireRed-Image-Edit-1.0-ComfyUI"),
        ),
        recommended=(
            Recommended(40, 4.0),
            Recommended(8, 1.0, variant="Lightning LoRA of 8 steps"),
        ),
        note="The template patches the model with ModelSamplingAuraFlow 3.1 and CFGNorm.",
    ),
)
