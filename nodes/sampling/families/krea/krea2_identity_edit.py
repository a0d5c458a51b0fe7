"""Krea 2 Identity Edit: a LoRA with two nodes of its own pack, comfyui-krea2edit."""

from __future__ import annotations

from ..family import Compared, Family, Recommended
from .krea2 import FILES, LICENSE

FAMILIES = (
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
