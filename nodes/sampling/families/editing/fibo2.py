"""FIBO 2: one node encodes both prompts and the images, and returns the latent."""

from __future__ import annotations

from ..encode_node import EncodeNode, numbered
from ..family import Compared, Family, Recommended

SOURCE = "Comfy-Org/Fibo-2.0"

FAMILIES = (
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
            ("diffusion_models/fibo2_dev_int8_convrot.safetensors", SOURCE),
            ("diffusion_models/fibo2_edit_turbo_int8_convrot.safetensors", SOURCE),
            ("text_encoders/qwen3vl_4b_bf16.safetensors", SOURCE),
            ("vae/flux2-vae.safetensors", SOURCE),
        ),
        recommended=(
            Recommended(50, 5.0, variant="dev"),
            Recommended(4, 1.0, variant="edit turbo"),
        ),
        enhancer="qwen3vl_8b_int8_convrot, which writes a JSON caption",
        note="Trained on JSON captions; plain text works too.",
    ),
)
