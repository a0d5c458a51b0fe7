"""Bernini-R: edits single frames with the class of the WAN video models, so `auto` cannot tell it."""

from __future__ import annotations

from .family import Compared, EncodeNode, Family, Recommended, numbered

SOURCE = "Comfy-Org/Bernini-R"

FAMILIES = (
    Family(
        name="Bernini-R",
        models=("WAN21",),
        guess=False,
        method="bernini-r",
        row=EncodeNode(
            "BerniniConditioning",
            numbered("reference_image_", 0, 8, "reference_images"),
            source="source_video",
            fit="as it is",
            negative="own output",
            latent="own output",
            fixed=(("length", 1), ("batch_size", 1)),
            sized=True,
            after_text=True,
        ),
        compared=Compared("as documented", "as documented", "as documented"),
        ran_in=("0.33.0",),
        clip_type="wan",
        files=(
            ("diffusion_models/wan2.2_bernini_r_high_noise_fp8_scaled.safetensors", SOURCE),
            ("diffusion_models/wan2.2_bernini_r_low_noise_fp8_scaled.safetensors", SOURCE),
            (
                "text_encoders/umt5_xxl_fp8_e4m3fn_scaled.safetensors",
                "Comfy-Org/Wan_2.1_ComfyUI_repackaged",
            ),
            ("vae/Wan2_1_VAE_bf16.safetensors", "Kijai/WanVideo_comfy"),
        ),
        recommended=(
            Recommended(40, 5.0, "res_multistep"),
            Recommended(6, 1.0, "res_multistep", variant="lightx2v LoRA"),
        ),
        note="The template samples the first half of the steps with the high-noise model, the rest with the "
        "low-noise model. The Step Generator has one model; use Attempt Start and Attempt End for both.",
    ),
)
