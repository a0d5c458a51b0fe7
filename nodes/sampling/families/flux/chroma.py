"""Chroma: image to image."""

from __future__ import annotations

from ..family import NOISE, Compared, Family, Recommended

FAMILIES = (
    Family(
        name="Chroma",
        models=("Chroma", "ChromaRadiance"),
        method=NOISE,
        compared=Compared("no comparison", "image to image"),
        clip_type="chroma",
        files=(
            ("diffusion_models/Chroma1-HD-fp8mixed.safetensors", "Comfy-Org/Chroma1-HD_repackaged"),
            ("text_encoders/t5xxl_fp8_e4m3fn_scaled.safetensors", "comfyanonymous/flux_text_encoders"),
            ("vae/ae.safetensors", "Comfy-Org/Lumina_Image_2.0_Repackaged"),
        ),
        recommended=(Recommended(26, 3.5, scheduler="beta"),),
    ),
)
