"""Families of other makers that edit with the host's own nodes. A model and its edit model share a class."""

from __future__ import annotations

from .family import ENCODE, NOISE, Compared, EncodeNode, Family, ImageInputs, Recommended, numbered

BOOGU_FILES = (
    ("text_encoders/qwen3vl_8b_fp8_scaled.safetensors", "Comfy-Org/Qwen3-VL"),
    ("vae/ae.safetensors", "Comfy-Org/HiDream-I1_ComfyUI"),
)
FIBO_SOURCE = "Comfy-Org/Fibo-2.0"
REFERENCE_IMAGES = EncodeNode(
    "HiDreamO1ReferenceImages",
    numbered("image_", 1, 10, "images"),
    fit="as it is",
    grid=32,
    after_text=True,
    takes_vae=False,
)
JOYAI_SOURCE = "Comfy-Org/JoyAI-Image-Edit"
LONGCAT_FILES = (
    ("text_encoders/qwen_2.5_vl_7b_fp8_scaled.safetensors", "Comfy-Org/Qwen-Image_ComfyUI"),
    ("vae/ae.safetensors", "Comfy-Org/z_image_turbo"),
)
MAGE_SOURCE = "Comfy-Org/Mage-Flow"
MAGE_FILES = (
    ("text_encoders/qwen3vl_4b_bf16.safetensors", MAGE_SOURCE),
    ("vae/mage_flow_vae_bf16.safetensors", MAGE_SOURCE),
)
MOSS_SOURCE = "Comfy-Org/MOSS-Image"
OMNIGEN_SOURCE = "Comfy-Org/Omnigen2_ComfyUI_repackaged"

FAMILIES = (
    Family(
        name="Boogu-Image",
        models=("Boogu",),
        method=NOISE,
        compared=Compared("identical", "image to image"),
        ran_in=("0.33.0",),
        clip_type="boogu",
        files=BOOGU_FILES,
    ),
    Family(
        name="Boogu-Image-Edit",
        models=("Boogu",),
        method=ENCODE,
        row=EncodeNode(
            "TextEncodeBooguEdit",
            numbered("image_", 1, 16, "images"),
            fit="as it is",
            grid=8,
            negative="own output",
        ),
        compared=Compared("identical", "identical", "as documented"),
        ran_in=("0.33.0",),
        clip_type="boogu",
        files=(
            ("diffusion_models/boogu_image_edit_fp8_scaled.safetensors", "Comfy-Org/Boogu-Image"),
            *BOOGU_FILES,
        ),
        recommended=(Recommended(25, 3.5, "dpmpp_2m"),),
    ),
    # One node encodes both prompts and the images, and returns the latent.
    Family(
        name="FIBO 2",
        license="CC BY-NC: **no commercial use**",
        method="fibo 2",
        row=EncodeNode(
            "TextEncodeFibo2",
            numbered("image_", 1, 16, "images"),
            fit="as it is",
            negative="own output",
            latent="own output",
            mark="<image_{}>",
            fixed=(("batch_size", 1),),
            draws_text=True,
            sized=True,
        ),
        compared=Compared("read", "read", "read"),
        clip_type="fibo2",
        files=(
            ("diffusion_models/fibo2_dev_int8_convrot.safetensors", FIBO_SOURCE),
            ("diffusion_models/fibo2_edit_turbo_int8_convrot.safetensors", FIBO_SOURCE),
            ("text_encoders/qwen3vl_4b_bf16.safetensors", FIBO_SOURCE),
            ("vae/flux2-vae.safetensors", FIBO_SOURCE),
        ),
        recommended=(
            Recommended(50, 5.0, variant="dev"),
            Recommended(4, 1.0, variant="edit turbo"),
        ),
        enhancer="qwen3vl_8b_int8_convrot, which writes a JSON caption",
        note="Trained on JSON captions; plain text works too.",
    ),
    # Works on pixels, like SenseNova, which shares its node for reference images.
    Family(
        name="HiDream-O1",
        license="MIT",
        models=("HiDreamO1",),
        method=ENCODE,
        row=REFERENCE_IMAGES,
        compared=Compared("identical", "identical", "as documented"),
        ran_in=("0.33.0",),
        files=(("checkpoints/hidream_o1_image_bf16.safetensors", "Comfy-Org/HiDream-O1-Image"),),
        recommended=(Recommended(40, 5.0, "dpmpp_2m_sde_gpu", "normal"),),
        enhancer="gemma4_e4b_it_fp8_scaled",
    ),
    Family(
        name="SenseNova U1.5, U1.6",
        models=("SenseNovaU15",),
        method=ENCODE,
        row=REFERENCE_IMAGES,
        compared=Compared("read", "read", "read"),
        files=(("checkpoints/sensenova_u1.6_8b_mot_int8_convrot.safetensors", "Comfy-Org/SenseNova-U1"),),
        note="One checkpoint with its text encoder. The maker's flow shift is 3. ComfyUI has its own nodes "
        "for thinking and interleaving.",
    ),
    Family(
        name="JoyAI-Image-Edit",
        license="Apache-2.0",
        models=("JoyImage",),
        method=ENCODE,
        row=EncodeNode(
            "TextEncodeJoyImageEdit",
            numbered("image", 0, 6, "images"),
            fit="steps",
            scaling="nearest-exact",
        ),
        compared=Compared("no template", "identical", "as documented"),
        ran_in=("0.33.0",),
        clip_type="joyimage",
        files=(
            ("diffusion_models/joyai_image_edit_int8_convrot.safetensors", JOYAI_SOURCE),
            ("text_encoders/qwen3vl_8b_joyimage_edit_int8_convrot.safetensors", JOYAI_SOURCE),
            ("vae/wan_2.1_vae.safetensors", JOYAI_SOURCE),
        ),
        recommended=(Recommended(40, 4.0, scheduler="normal"),),
    ),
    Family(
        name="LongCat-Image",
        models=("LongCatImage",),
        method=NOISE,
        compared=Compared("identical", "identical"),
        ran_in=("0.33.0",),
        clip_type="longcat_image",
        files=LONGCAT_FILES,
    ),
    Family(
        name="LongCat-Image-Edit",
        models=("LongCatImage",),
        method=ENCODE,
        row=EncodeNode(
            "TextEncodeQwenImageEdit", ImageInputs(("image",)), fit="steps", latent="source", layout="index"
        ),
        compared=Compared("identical", "identical"),
        ran_in=("0.33.0",),
        clip_type="longcat_image",
        files=(
            (
                "diffusion_models/longcat_image_edit_bf16.safetensors",
                "TalmajM/LongCat-Image-Edit_ComfyUI_repackaged",
            ),
            *LONGCAT_FILES,
        ),
        recommended=(Recommended(50, 4.5),),
    ),
    Family(
        name="Mage-Flow",
        models=("MageFlow",),
        method=NOISE,
        compared=Compared("identical", "image to image"),
        ran_in=("0.33.0",),
        clip_type="mage",
        files=MAGE_FILES,
    ),
    Family(
        name="Mage-Flow-Edit",
        models=("MageFlow",),
        method=ENCODE,
        row=EncodeNode(
            "TextEncodeMageFlowEdit",
            numbered("image_", 1, 16, "images"),
            fit="steps",
            fits_references=False,
            negative="own output",
            latent="own output",
            mark="Image {}",
            draws_text=True,
            sized=True,
        ),
        compared=Compared("identical", "identical", "identical"),
        ran_in=("0.33.0",),
        clip_type="mage",
        files=(("diffusion_models/mage_flow_edit_int8_convrot.safetensors", MAGE_SOURCE), *MAGE_FILES),
        recommended=(Recommended(30, 5.0),),
    ),
    # The images reach the model as reference latents only.
    Family(
        name="MOSS-Image with its edit LoRA",
        license="Apache-2.0",
        method="moss image edit",
        row=EncodeNode(
            "TextEncodeMOSSImageEdit",
            numbered("image_", 0, 9, "images"),
            fit="steps",
            fixed=(("edit_format", "Moss-Image-Edit"), ("image_strength", 1.0)),
        ),
        compared=Compared("read", "read", "read"),
        clip_type="moss_image",
        files=(
            ("diffusion_models/moss_image_sft_int8_convrot.safetensors", MOSS_SOURCE),
            ("loras/moss_image_edit_lora_rank_64_bf16.safetensors", MOSS_SOURCE),
            ("text_encoders/qwen3.5_9b_w4a8_gptq.safetensors", MOSS_SOURCE),
            ("vae/flux2-vae_small.safetensors", MOSS_SOURCE),
        ),
        recommended=(
            Recommended(30, 4.0, scheduler="normal"),
            Recommended(25, 2.5, "er_sde", variant="text to image without the LoRA"),
        ),
        enhancer="qwen3.5_9b_w4a8_gptq, its own text encoder",
        note="The template patches the model with SkipLayerGuidanceDiTSimple, single layer 22.",
    ),
    # References on two conditionings, separate guidance for text and images.
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
            ("diffusion_models/omnigen2_fp16.safetensors", OMNIGEN_SOURCE),
            ("text_encoders/qwen_2.5_vl_fp16.safetensors", OMNIGEN_SOURCE),
            ("vae/ae.safetensors", "Comfy-Org/Lumina_Image_2.0_Repackaged"),
        ),
        recommended=(Recommended(20, 5.0),),
        note="Image guidance 2.",
    ),
)
