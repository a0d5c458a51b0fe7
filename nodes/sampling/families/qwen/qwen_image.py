"""Qwen-Image and its edit models, which share a class. Only the file of 2511 states its reference method."""

from __future__ import annotations

from dataclasses import replace

from ..encode_node import EncodeNode, ImageInputs, numbered
from ..family import NOISE, Compared, Family, Recommended

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
)
