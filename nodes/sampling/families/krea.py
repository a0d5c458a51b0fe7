"""Krea 2: image to image, or a LoRA that reads reference images through encode nodes."""

from __future__ import annotations

from .family import ENCODE, NOISE, Compared, EncodeNode, Family, Recommended, numbered

SOURCE = "Comfy-Org/Krea-2"
LICENSE = "Krea 2 Community License"
FILES = (
    ("diffusion_models/krea2_turbo_fp8_scaled.safetensors", SOURCE),
    ("text_encoders/qwen3vl_4b_fp8_scaled.safetensors", SOURCE),
    ("vae/qwen_image_vae.safetensors", SOURCE),
)
TURBO = (Recommended(8, 1.0, variant="Turbo"),)
FAMILIES = (
    Family(
        name="Krea 2",
        license=LICENSE,
        models=("Krea2",),
        method=NOISE,
        compared=Compared("identical", "identical"),
        ran_in=("0.33.0",),
        clip_type="krea2",
        files=FILES,
        recommended=TURBO,
    ),
    Family(
        name="Krea 2 with a reference LoRA",
        short="Krea 2 with a LoRA that reads reference images",
        license=LICENSE,
        models=("Krea2",),
        method=ENCODE,
        row=EncodeNode(
            "TextEncodeQwenImageEditPlus",
            numbered("image", 1, 3),
            fit="as it is",
            mark="Picture {}",
            layout="index_timestep_zero",
        ),
        compared=Compared("identical", "no template", "identical"),
        ran_in=("0.33.0",),
        clip_type="krea2",
        files=(*FILES, ("loras/krea2_style_reference.safetensors", SOURCE)),
        recommended=TURBO,
    ),
    # A LoRA with two nodes of its own pack, comfyui-krea2edit.
    Family(
        name="Krea 2 Identity Edit",
        of="Krea 2 with the Identity Edit LoRA",
        license=f"LoRA: {LICENSE}; nodes: Apache-2.0",
        models=("Krea2",),
        method="krea 2 identity edit",
        images=2,
        compared=Compared("read", "read", "read"),
        clip_type="krea2",
        files=(*FILES, ("loras/krea2_identity_edit_v1_2.safetensors", "conradlocke/krea2-identity-edit")),
        recommended=(
            Recommended(8, 1.0, variant="Turbo"),
            Recommended(20, 3.0, variant="Raw, to remove things"),
        ),
        note="Needs the node pack lbouaraba/comfyui-krea2edit. At most 2 megapixels.",
    ),
)
