"""p-h3-image by Pruna: its latent also has audio parts, which the Step Generator cannot sample."""

from __future__ import annotations

from ..family import Compared, Family

FAMILIES = (
    Family(
        name="p-h3-image",
        method=None,
        images=9,
        compared=Compared("read", "read", "read"),
        note="Its latent has audio parts, which the Step Generator does not sample. Node "
        "PH3ImageConditioning, prompts with <Picture 1>, MiniMax H3 Sigma Shift with both values at 1. "
        "Files in PrunaAI/P-H3-Image-Comfy.",
    ),
)
