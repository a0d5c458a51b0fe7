"""Z-Image and Lumina 2; Z-Image Omni reads image features."""

from __future__ import annotations

from ..encode_node import EncodeNode, numbered
from ..family import NOISE, Compared, Family, Recommended

BOTH = ("0.14.1", "0.33.0")
FILES = (
    ("diffusion_models/z_image_turbo_bf16.safetensors", "Comfy-Org/z_image_turbo"),
    ("text_encoders/qwen_3_4b.safetensors", "Comfy-Org/z_image_turbo"),
    ("vae/ae.safetensors", "Comfy-Org/z_image_turbo"),
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
)
