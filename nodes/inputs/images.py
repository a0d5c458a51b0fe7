"""Conversion between the host's images (batches of floats) and the backend's (8-bit pictures).

Floats are truncated to bytes, as in the host's Save Image. So an image in a journal equals the file that the
host would save, and an edit starts from the same pixels as after Load Image.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from PIL import Image

from ...backend.core.errors import SettingsError
from ...backend.core.files.image_decoding import MAX_PIXELS
from ...backend.core.pictures import Picture

LOOK = "Check what is connected to the image input."
LOOK_AT_MASK = "Check what is connected to the mask input."
OVERFLOWED = (
    "The model or its VAE overflowed. Load it in bfloat16 or float32 (VAE: start ComfyUI with --fp32-vae)."
)


class OverflowedImage(SettingsError):
    """An image has pixels that are NaN or infinite."""

    def __init__(self) -> None:
        super().__init__("An image contains pixels that are NaN or infinite.", OVERFLOWED)


def to_pictures(batch: object) -> tuple[Picture, ...]:
    """Return the pictures of an image batch (see `checked_batch`), values 0..1.

    One channel is gray. A second or fourth channel is opacity.

    Raises:
        OverflowedImage: A pixel is NaN or infinite.
        SettingsError: Something else is connected, or an image could not be read back from a run's files.
    """
    return tuple(_picture(one) for one in checked_batch(batch))


def checked_batch(batch: object) -> torch.Tensor:
    """Return the image batch as `(count, height, width, channels)` with 1 to 4 channels.

    The frames of a video, `(videos, frames, height, width, channels)`, become images, as in the host's VAE
    Decode.

    Raises:
        SettingsError: It is something else, empty, or too large.
    """
    if not isinstance(batch, torch.Tensor):
        found = "nothing" if batch is None else f"a value of type {type(batch).__name__:.60}"
        raise SettingsError(f"Expected an image, got {found}.", LOOK)
    if batch.ndim not in (4, 5) or batch.shape[-1] not in (1, 2, 3, 4):
        raise SettingsError(
            f"Expected images of shape [count, height, width, channels] with 1 to 4 channels, got "
            f"{tuple(batch.shape)}.",
            LOOK,
        )
    if not batch.numel() or not batch.is_floating_point() or batch.is_meta:
        raise SettingsError(
            f"Expected images with floating-point pixels, got shape {tuple(batch.shape)} and dtype "
            f"{batch.dtype}.",
            LOOK,
        )
    height, width = batch.shape[-3:-1]
    if height * width > MAX_PIXELS:
        raise SettingsError(
            f"An image of {width}x{height} pixels is too large; at most {MAX_PIXELS} pixels are allowed.",
            "Scale it down first.",
        )
    return batch.flatten(0, -4)


def _picture(image: torch.Tensor) -> Picture:
    # numpy has no bfloat16 and cannot read tensors with gradients.
    floats = image.detach().cpu()
    floats = floats.float() if floats.dtype is torch.bfloat16 else floats
    if not torch.isfinite(floats).all():
        raise OverflowedImage
    pixels = np.clip(255.0 * floats.numpy(), 0, 255).astype(np.uint8)
    return Picture(Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels))


def to_batch(image: Image.Image) -> torch.Tensor:
    """Return an image as a batch `(1, height, width, 3)` of floats in 0..1, like the host's Load Image."""
    pixels = np.array(image.convert("RGB")).astype(np.float32) / 255.0
    return torch.from_numpy(pixels)[None]


def to_mask(image: Image.Image) -> torch.Tensor:
    """Return a mask `(1, height, width)` of floats in 0..1 that is 1 where the image is white."""
    pixels = np.array(image.convert("L")).astype(np.float32) / 255.0
    return torch.from_numpy(pixels)[None]


def mask_picture(mask: object, where: str) -> Picture:
    """Return the only mask of a batch as an image that is white at 1.

    Args:
        mask: `(1, height, width)` or `(height, width)`, values 0..1.
        where: Name of the input, for messages.

    Raises:
        SettingsError: There are several masks, or it has another shape or type, or is empty.
    """
    if not isinstance(mask, torch.Tensor) or mask.is_meta or not mask.is_floating_point():
        found = mask.dtype if isinstance(mask, torch.Tensor) else type(mask).__name__
        raise SettingsError(f"{where}: expected a mask, got {found!s:.60}.", LOOK_AT_MASK)
    if not 0 < mask.numel() <= MAX_PIXELS:
        raise SettingsError(f"{where}: expected one mask, got shape {tuple(mask.shape)}.", LOOK_AT_MASK)
    masks = mask.detach().float().reshape((-1, *mask.shape[-2:])) if mask.ndim in (2, 3) else mask
    if masks.ndim != 3 or len(masks) != 1 or not torch.isfinite(masks).all():
        raise SettingsError(
            f"{where}: expected one mask, got shape {tuple(mask.shape)}.", "Connect a MASK of one image."
        )
    if not torch.count_nonzero(masks):
        raise SettingsError(
            f"{where} is empty, so no step could change anything.",
            "Paint the part that steps may change, or disconnect the mask.",
        )
    return Picture(Image.fromarray(np.clip(255.0 * masks[0].cpu().numpy(), 0, 255).astype(np.uint8), "L"))


def only_picture(batch: Any, where: str) -> Picture:
    """Return the only picture of an image batch.

    Raises:
        SettingsError: There are several images, or something else is connected.
    """
    pictures = to_pictures(batch)
    if len(pictures) != 1:
        raise SettingsError(
            f"Input {where!r}: expected one image, got {len(pictures)}.",
            "Select one (Image From Batch), or set the batch size to 1.",
        )
    return pictures[0]
