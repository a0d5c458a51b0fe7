"""HiDream-O1: works on pixels; a node adds the images to both conditionings."""

from __future__ import annotations

from ..encode_node import EncodeNode, numbered
from ..family import ENCODE, Compared, Family, Recommended

REFERENCE_IMAGES = EncodeNode(
    "HiDreamO1ReferenceImages",
    numbered("image_", 1, 10, "images"),
    fit="as it is",
    grid=32,
    after_text=True,
    takes_vae=False,
)
FAMILIES = (
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
)
