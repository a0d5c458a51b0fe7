"""FLUX.1: dev, Kontext and schnell share a class; only dev and Kontext have a guidance input."""

from __future__ import annotations

from ..family import NOISE, Compared, Family, Recommended

BOTH = ("0.14.1", "0.33.0")
ENCODERS = (
    ("text_encoders/clip_l.safetensors", "comfyanonymous/flux_text_encoders"),
    ("text_encoders/t5xxl_fp8_e4m3fn_scaled.safetensors", "comfyanonymous/flux_text_encoders"),
    ("vae/ae.safetensors", "Comfy-Org/Lumina_Image_2.0_Repackaged"),
)
KONTEXT = Family(
    name="FLUX.1 Kontext",
    of="a FLUX.1 model",
    short="Kontext",
    license="FLUX.1 dev: **no commercial use**",
    models=("Flux",),
    method="flux kontext",
    images=5,
    compared=Compared("identical", "identical", "no template"),
    ran_in=BOTH,
    clip_type="flux",
    files=(
        ("diffusion_models/flux1-dev-kontext_fp8_scaled.safetensors", "Comfy-Org/flux1-kontext-dev_ComfyUI"),
        *ENCODERS,
    ),
    recommended=(Recommended(20, 1.0),),
    note="The template joins several images into one; here each is a reference latent. Guidance 2.5.",
)
DEV = Family(
    name="FLUX.1 dev",
    license="FLUX.1 dev: **no commercial use**",
    models=("Flux",),
    method=NOISE,
    compared=Compared("identical", "identical"),
    ran_in=BOTH,
    clip_type="flux",
    files=(("diffusion_models/flux1-dev.safetensors", "Comfy-Org/flux1-dev"), *ENCODERS),
    recommended=(Recommended(20, 1.0),),
    note="Guidance 3.5.",
)
SCHNELL = Family(
    name="FLUX.1 schnell, Ovis-Image",
    models=("Flux",),
    certain=lambda model: not model.distilled_guidance,
    method=NOISE,
    compared=Compared("no comparison", "image to image"),
    clip_type="flux",
    recommended=(Recommended(4, 1.0, variant="schnell"),),
)
FAMILIES = (KONTEXT, DEV, SCHNELL)
