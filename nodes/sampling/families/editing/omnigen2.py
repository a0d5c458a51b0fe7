"""OmniGen2: references on two conditionings, separate guidance for text and images."""

from __future__ import annotations

from ..family import Compared, Family, Recommended

SOURCE = "Comfy-Org/Omnigen2_ComfyUI_repackaged"

FAMILIES = (
    Family(
        name="OmniGen2",
        license="Apache-2.0",
        models=("Omnigen2",),
        method="omnigen2",
        images=5,
        compared=Compared("identical", "identical", "identical"),
        ran_in=("0.14.1", "0.33.0"),
        clip_type="omnigen2",
        files=(
            ("diffusion_models/omnigen2_fp16.safetensors", SOURCE),
            ("text_encoders/qwen_2.5_vl_fp16.safetensors", SOURCE),
            ("vae/ae.safetensors", "Comfy-Org/Lumina_Image_2.0_Repackaged"),
        ),
        recommended=(Recommended(20, 5.0),),
        note="Image guidance 2.",
    ),
)
