"""SenseNova U1.5 and U1.6: pixels like HiDream-O1, whose node for reference images they share."""

from __future__ import annotations

from ..family import ENCODE, Compared, Family
from .hidream_o1 import REFERENCE_IMAGES

FAMILIES = (
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
)
