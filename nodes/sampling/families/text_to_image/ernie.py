"""ERNIE-Image: image to image."""

from __future__ import annotations

from ..family import NOISE, Compared, Family, Recommended

SOURCE = "Comfy-Org/ERNIE-Image"

FAMILIES = (
    Family(
        name="ERNIE-Image",
        models=("ErnieImage",),
        method=NOISE,
        compared=Compared("identical", "identical"),
        ran_in=("0.33.0",),
        clip_type="flux2",
        files=(
            ("diffusion_models/ernie-image.safetensors", SOURCE),
            ("text_encoders/ministral-3-3b.safetensors", SOURCE),
            ("vae/flux2-vae.safetensors", SOURCE),
        ),
        recommended=(Recommended(20, 4.0),),
        enhancer="ernie-image-prompt-enhancer",
    ),
)
