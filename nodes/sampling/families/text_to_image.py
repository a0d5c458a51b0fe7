"""Families of other makers that edit by image to image only."""

from __future__ import annotations

from .family import NOISE, Compared, Family, Recommended

ERNIE_SOURCE = "Comfy-Org/ERNIE-Image"
IDEOGRAM_SOURCE = "Comfy-Org/Ideogram-4"
CLASSES = {
    "AuraFlow": ("AuraFlow",),
    "PixArt": ("PixArt",),
    "HunyuanDiT": ("HunyuanDiT",),
    "HunyuanImage 2.1": ("HunyuanImage21",),
    "Kandinsky 5 Image": ("Kandinsky5Image",),
    "Anima": ("Anima",),
    "Lens": ("Lens",),
    "PixelDiT": ("PixelDiTT2I",),
}
SETTINGS = {
    "Kandinsky 5 Image": Recommended(50, 3.5),
    "Anima": Recommended(30, 4.0),
    "Lens": Recommended(20, 5.0),
    "PixelDiT": Recommended(30, 4.0, "er_sde"),
}

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
    Family(
        name="ERNIE-Image",
        models=("ErnieImage",),
        method=NOISE,
        compared=Compared("identical", "identical"),
        ran_in=("0.33.0",),
        clip_type="flux2",
        files=(
            ("diffusion_models/ernie-image.safetensors", ERNIE_SOURCE),
            ("text_encoders/ministral-3-3b.safetensors", ERNIE_SOURCE),
            ("vae/flux2-vae.safetensors", ERNIE_SOURCE),
        ),
        recommended=(Recommended(20, 4.0),),
        enhancer="ernie-image-prompt-enhancer",
    ),
    Family(
        name="Ideogram 4",
        models=("Ideogram4",),
        method=NOISE,
        compared=Compared("identical", "image to image"),
        ran_in=("0.33.0",),
        clip_type="ideogram4",
        files=(
            ("diffusion_models/ideogram4_fp8_scaled.safetensors", IDEOGRAM_SOURCE),
            ("diffusion_models/ideogram4_unconditional_fp8_scaled.safetensors", IDEOGRAM_SOURCE),
            ("text_encoders/qwen3vl_8b_fp8_scaled.safetensors", "Comfy-Org/Qwen3-VL"),
            ("vae/flux2-vae.safetensors", "Comfy-Org/flux2-dev"),
        ),
        note="Connect DualModelGuider and Ideogram4Scheduler to Step Options.",
    ),
    *(
        Family(
            name=name,
            models=models,
            method=NOISE,
            compared=Compared("no comparison", "image to image"),
            recommended=(SETTINGS[name],) if name in SETTINGS else (),
        )
        for name, models in CLASSES.items()
    ),
)
