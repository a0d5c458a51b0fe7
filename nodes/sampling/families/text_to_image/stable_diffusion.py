"""Stable Diffusion: image to image."""

from __future__ import annotations

from ..family import NOISE, Compared, Family, Recommended

FAMILIES = (
    Family(
        name="Stable Diffusion 1.5, 2, SDXL",
        models=("BaseModel", "SDXL", "SDXLRefiner"),
        method=NOISE,
        compared=Compared("identical", "identical"),
        ran_in=("0.14.1", "0.33.0"),
        files=(
            (
                "checkpoints/sd_xl_base_1.0.safetensors",
                "stabilityai/stable-diffusion-xl-base-1.0",
            ),
        ),
        recommended=(Recommended(25, 7.0, "dpmpp_2m", "karras", "SDXL"),),
    ),
    Family(
        name="Stable Diffusion 3",
        models=("SD3",),
        method=NOISE,
        compared=Compared("no comparison", "image to image"),
        files=(("checkpoints/sd3.5_large_fp8_scaled.safetensors", "Comfy-Org/stable-diffusion-3.5-fp8"),),
        recommended=(Recommended(20, 4.01, scheduler="sgm_uniform"),),
    ),
)
