"""Ideogram 4: image to image."""

from __future__ import annotations

from ..family import NOISE, Compared, Family

SOURCE = "Comfy-Org/Ideogram-4"

FAMILIES = (
    Family(
        name="Ideogram 4",
        models=("Ideogram4",),
        method=NOISE,
        compared=Compared("identical", "image to image"),
        ran_in=("0.33.0",),
        clip_type="ideogram4",
        files=(
            ("diffusion_models/ideogram4_fp8_scaled.safetensors", SOURCE),
            ("diffusion_models/ideogram4_unconditional_fp8_scaled.safetensors", SOURCE),
            ("text_encoders/qwen3vl_8b_fp8_scaled.safetensors", "Comfy-Org/Qwen3-VL"),
            ("vae/flux2-vae.safetensors", "Comfy-Org/flux2-dev"),
        ),
        note="Connect DualModelGuider and Ideogram4Scheduler to Step Options.",
    ),
)
