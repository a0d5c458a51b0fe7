"""Text encoders that are shown the images to edit.

Decision: the host's own nodes are called, not written anew: their prompt templates and image sizes belong to
the models, and change with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def encode_qwen_edit(clip: Any, prompt: str, vae: Any, image: torch.Tensor) -> list:
    """Conditioning of Qwen-Image-Edit (TextEncodeQwenImageEdit)."""
    from comfy_extras.nodes_qwen import TextEncodeQwenImageEdit

    return TextEncodeQwenImageEdit.execute(clip, prompt, vae, image).args[0]


def encode_qwen_edit_plus(clip: Any, prompt: str, vae: Any, images: Sequence[torch.Tensor]) -> list:
    """Conditioning of Qwen-Image-Edit-2509 and later, with at most three images
    (TextEncodeQwenImageEditPlus)."""
    from comfy_extras.nodes_qwen import TextEncodeQwenImageEditPlus

    return TextEncodeQwenImageEditPlus.execute(clip, prompt, vae, *images).args[0]


def encode_z_image_omni(clip: Any, prompt: str, vae: Any, images: Sequence[torch.Tensor]) -> list:
    """Conditioning of Z-Image Omni, with at most three images (TextEncodeZImageOmni without an image
    encoder)."""
    from comfy_extras.nodes_zimage import TextEncodeZImageOmni

    # Its own scaling to a megapixel rounds to 8 pixels, of which the model's patches need an even number.
    return TextEncodeZImageOmni.execute(clip, prompt, None, False, vae, *images).args[0]
