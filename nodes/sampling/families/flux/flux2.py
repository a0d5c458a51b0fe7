"""FLUX.2 klein and dev: every image is a reference latent."""

from __future__ import annotations

from ..family import REFERENCE, Compared, Family, Recommended

FAMILIES = (
    Family(
        name="FLUX.2 klein, dev",
        license="klein 4B Apache-2.0; klein 9B and dev: **no commercial use**",
        models=("Flux2",),
        method=REFERENCE,
        images=9,
        compared=Compared("identical", "identical", "identical"),
        ran_in=("0.14.1", "0.33.0"),
        clip_type="flux2",
        files=(
            ("diffusion_models/flux-2-klein-4b-fp8.safetensors", "black-forest-labs/FLUX.2-klein-4b-fp8"),
            ("text_encoders/qwen_3_4b.safetensors", "Comfy-Org/z_image_turbo"),
            ("vae/flux2-vae.safetensors", "Comfy-Org/flux2-dev"),
        ),
        recommended=(
            Recommended(4, 1.0, scheduler="flux2", variant="klein, distilled"),
            Recommended(20, 5.0, scheduler="flux2", variant="klein, base"),
            Recommended(20, 1.0, scheduler="flux2", variant="dev"),
        ),
    ),
)
