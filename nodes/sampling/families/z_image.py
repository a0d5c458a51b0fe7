"""Z-Image and models of the same architecture. Z-Image Omni reads image features."""

from __future__ import annotations

from .family import ENCODE, NOISE, Compared, EncodeNode, Family, Recommended, numbered

BOTH = ("0.14.1", "0.33.0")
FILES = (
    ("diffusion_models/z_image_turbo_bf16.safetensors", "Comfy-Org/z_image_turbo"),
    ("text_encoders/qwen_3_4b.safetensors", "Comfy-Org/z_image_turbo"),
    ("vae/ae.safetensors", "Comfy-Org/z_image_turbo"),
)
MING_SOURCE = "Comfy-Org/Ming-Image"
MING_FILES = (
    ("diffusion_models/ming_image_0.1_design_int8_convrot.safetensors", MING_SOURCE),
    ("text_encoders/ming_image_0.1_ling_mini_2.0_int8_convrot.safetensors", MING_SOURCE),
    ("vae/ming_image_vae_bf16.safetensors", MING_SOURCE),
)

FAMILIES = (
    Family(
        name="Z-Image, Lumina 2",
        license="Z-Image Apache-2.0",
        models=("Lumina2",),
        certain=lambda model: not model.image_features,
        method=NOISE,
        compared=Compared("identical", "image to image"),
        ran_in=BOTH,
        clip_type="lumina2",
        files=FILES,
        recommended=(
            Recommended(8, 1.0, "res_multistep", variant="turbo"),
            Recommended(25, 4.0, "res_multistep", variant="base"),
        ),
    ),
    Family(
        name="Z-Image Omni",
        of="a Z-Image or Lumina 2 model",
        models=("Lumina2",),
        certain=lambda model: model.image_features,
        method="z-image omni",
        # The node's own scaling to one megapixel rounds to 8 pixels, but the model's patches need multiples
        # of 16.
        row=EncodeNode(
            "TextEncodeZImageOmni",
            numbered("image", 1, 3),
            scaling="area",
            fixed=(("auto_resize_images", False),),
        ),
        compared=Compared("identical", "no template", "no template"),
        ran_in=BOTH,
        clip_type="lumina2",
    ),
    Family(
        name="Ming-Image",
        models=("MingImage",),
        method=NOISE,
        compared=Compared("read", "image to image"),
        clip_type="qwen_image",
    ),
    Family(
        name="Ming-Image that edits",
        short="a Ming-Image that edits",
        models=("MingImage",),
        method=ENCODE,
        row=EncodeNode("TextEncodeMingImageEdit", numbered("image_", 1, 8, "images"), fit="steps"),
        compared=Compared("read", "read", "read"),
        clip_type="qwen_image",
        files=MING_FILES,
        recommended=(Recommended(12, 1.0),),
    ),
)
