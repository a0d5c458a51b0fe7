"""FLUX models and models of the same class.

FLUX.1 dev, Kontext and schnell share a class; only dev and Kontext have a guidance input.
"""

from __future__ import annotations

from .family import NOISE, REFERENCE, Compared, EncodeNode, Family, Recommended, numbered

BOTH = ("0.14.1", "0.33.0")
ENCODERS = (
    ("text_encoders/clip_l.safetensors", "comfyanonymous/flux_text_encoders"),
    ("text_encoders/t5xxl_fp8_e4m3fn_scaled.safetensors", "comfyanonymous/flux_text_encoders"),
    ("vae/ae.safetensors", "Comfy-Org/Lumina_Image_2.0_Repackaged"),
)
FLUX3_SOURCE = "black-forest-labs/flux-3-image-klein-comfy"

FAMILIES = (
    Family(
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
            (
                "diffusion_models/flux1-dev-kontext_fp8_scaled.safetensors",
                "Comfy-Org/flux1-kontext-dev_ComfyUI",
            ),
            *ENCODERS,
        ),
        recommended=(Recommended(20, 1.0),),
        note="The template joins several images into one; here each is a reference latent. Guidance 2.5.",
    ),
    Family(
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
    ),
    Family(
        name="FLUX.1 schnell, Ovis-Image",
        models=("Flux",),
        certain=lambda model: not model.distilled_guidance,
        method=NOISE,
        compared=Compared("no comparison", "image to image"),
        clip_type="flux",
        recommended=(Recommended(4, 1.0, variant="schnell"),),
    ),
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
    # The node adds the images as reference latents to both conditionings.
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
            ("diffusion_models/flux3-image-klein-int8-convrot.safetensors", FLUX3_SOURCE),
            ("diffusion_models/flux3-image-klein-base-int8-convrot.safetensors", FLUX3_SOURCE),
            ("text_encoders/qwen3vl_4b_int8_convrot.safetensors", FLUX3_SOURCE),
            ("vae/flux2-vae.safetensors", FLUX3_SOURCE),
        ),
        recommended=(
            Recommended(16, 1.0, variant="distilled"),
            Recommended(50, 4.0, variant="base"),
        ),
        enhancer="qwen3.5_9b_flux3_prompt_upsampler_w4a8",
        note="The maker says to use it always with the prompt upsampler.",
    ),
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
