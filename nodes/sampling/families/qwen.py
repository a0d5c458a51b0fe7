"""Qwen-Image models.

Qwen-Image and its edit models share a class; only the file of 2511 states its reference method.
"""

from __future__ import annotations

from dataclasses import replace

from .family import ENCODE, NOISE, Compared, EncodeNode, Family, ImageInputs, Recommended, numbered

BOTH = ("0.14.1", "0.33.0")
FILES = (
    ("text_encoders/qwen_2.5_vl_7b_fp8_scaled.safetensors", "Comfy-Org/Qwen-Image_ComfyUI"),
    ("vae/qwen_image_vae.safetensors", "Comfy-Org/Qwen-Image_ComfyUI"),
)
EDIT = EncodeNode("TextEncodeQwenImageEdit", ImageInputs(("image",)), latent="source")
PLUS = EncodeNode(
    "TextEncodeQwenImageEditPlus",
    numbered("image", 1, 3),
    fit="kontext",
    fits_references=False,
    latent="source",
    mark="Picture {}",
)


def _family(name: str, method: str, row: EncodeNode | None, file: str, compared: Compared) -> Family:
    return Family(
        name=name,
        of="a Qwen-Image model",
        license="Apache-2.0",
        models=("QwenImage",),
        method=method,
        row=row,
        compared=compared,
        ran_in=BOTH,
        clip_type="qwen_image",
        files=((f"diffusion_models/{file}", _source(file)), *FILES),
        recommended=(
            Recommended(40, 3.0) if "2511" in name else Recommended(20, 4.0),
            Recommended(4, 1.0, variant="Lightning LoRA of 4 steps"),
        ),
    )


def _source(file: str) -> str:
    return f"Comfy-Org/Qwen-Image{'-Edit' if 'edit' in file else ''}_ComfyUI"


IDENTICAL = Compared("identical", "identical", "identical")
SOURCE_21 = "Comfy-Org/Qwen-Image-2.1"

FAMILIES = (
    _family(
        "Qwen-Image",
        NOISE,
        None,
        "qwen_image_fp8_e4m3fn.safetensors",
        Compared("identical", "identical"),
    ),
    _family(
        "Qwen-Image-Edit",
        "qwen image edit",
        EDIT,
        "qwen_image_edit_fp8_e4m3fn.safetensors",
        Compared("identical", "identical"),
    ),
    _family(
        "Qwen-Image-Edit-2509",
        "qwen image edit plus",
        PLUS,
        "qwen_image_edit_2509_fp8_e4m3fn.safetensors",
        IDENTICAL,
    ),
    replace(
        _family(
            "Qwen-Image-Edit-2511",
            "qwen image edit 2511",
            replace(PLUS, layout="index_timestep_zero"),
            "qwen_image_edit_2511_fp8mixed.safetensors",
            IDENTICAL,
        ),
        certain=lambda model: model.timestep_zero,
    ),
    Family(
        name="Qwen-Image-2.1",
        license="Qwen Research: **no commercial use**",
        models=("QwenImage21",),
        method=ENCODE,
        row=EncodeNode(
            "TextEncodeQwenImage21",
            numbered("image_", 1, 10, "images"),
            fit="steps if needed",
            grid=32,
            negative="own output",
            latent="own output",
            mark="<image{}>",
            # The pack scales the images by the node's own rule, but never twice in a story.
            fixed=(("resolution", 0),),
            draws_text=True,
        ),
        compared=Compared("read", "read", "read"),
        clip_type="qwen_image",
        files=(
            ("diffusion_models/qwen_image_2.1_int8_convrot.safetensors", SOURCE_21),
            ("text_encoders/qwen3vl_8b_int8_convrot.safetensors", SOURCE_21),
            ("vae/qwen_image_2.1_vae_bf16.safetensors", SOURCE_21),
        ),
        recommended=(Recommended(25, 1.0),),
        enhancer="qwen3.5_9b_qwen_image_2.1_pe_t2i.int8_convrot, "
        "qwen3.5_9b_qwen_image_2.1_pe_i2i.int8_convrot",
        note="The template puts the node QwenImage21Cache between loader and sampler: device off rules the "
        "cache out, dtype int8 and int4 make it smaller. The turbo checkpoint needs the sigmas of its "
        "template on Step Options.",
    ),
    # Class and node of Qwen-Image-Edit-2509, but the image is scaled to the set area.
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
