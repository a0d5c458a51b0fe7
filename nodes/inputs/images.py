"""The host's images (batches of floats) and the backend's (8-bit pictures), in both directions.

Decision: floats become bytes by cutting off, as the host's Save Image does, so that a picture in a journal is
the file that the host would have saved and an edit starts from the same pixels as one after Load Image.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from PIL import Image

from ...backend.errors import SettingsError
from ...backend.files.image_decoding import MAX_PIXELS
from ...backend.pictures import Picture

LOOK = "Look at what is connected to it."
OVERFLOWED = "The model or its VAE overflowed: load it in bfloat16 or float32 (VAE: ComfyUI's --fp32-vae)."


class OverflowedImage(SettingsError):
    """An image has pixels that are NaN or infinite."""

    def __init__(self) -> None:
        super().__init__("An image has pixels that are not finite numbers (NaN or infinite).", OVERFLOWED)


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
    Decode. Raises SettingsError for anything else.
    """
    if not isinstance(batch, torch.Tensor):
        found = "Nothing" if batch is None else f"A value of the kind {type(batch).__name__:.60}"
        raise SettingsError(f"{found} is connected where an image is wanted.", LOOK)
    if batch.ndim not in (4, 5) or batch.shape[-1] not in (1, 2, 3, 4):
        raise SettingsError(
            f"Images of shape {tuple(batch.shape)} cannot be used; [count, height, width, channels] with "
            "1 to 4 channels is wanted.",
            LOOK,
        )
    if not batch.numel() or not batch.is_floating_point() or batch.is_meta:
        raise SettingsError(
            f"Images of shape {tuple(batch.shape)} and type {batch.dtype} cannot be used: an image has "
            "pixels, of floating point.",
            LOOK,
        )
    height, width = batch.shape[-3:-1]
    if height * width > MAX_PIXELS:
        raise SettingsError(
            f"An image of {width}x{height} pixels is connected; at most {MAX_PIXELS} are read.",
            "Scale it down first.",
        )
    return batch.flatten(0, -4)


def _picture(image: torch.Tensor) -> Picture:
    # numpy has no bfloat16, and reads nothing that is still being learned.
    floats = image.detach().cpu()
    floats = floats.float() if floats.dtype is torch.bfloat16 else floats
    if not torch.isfinite(floats).all():
        raise OverflowedImage
    pixels = np.clip(255.0 * floats.numpy(), 0, 255).astype(np.uint8)
    return Picture(Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels))


def to_batch(image: Image.Image) -> torch.Tensor:
    """An image as a batch `[1, H, W, 3]` of floats, values 0..1, as the host's Load Image gives it."""
    pixels = np.array(image.convert("RGB")).astype(np.float32) / 255.0
    return torch.from_numpy(pixels)[None]


def to_mask(image: Image.Image) -> torch.Tensor:
    """A mask `[1, H, W]` of floats that is 1 where the image is white."""
    pixels = np.array(image.convert("L")).astype(np.float32) / 255.0
    return torch.from_numpy(pixels)[None]


def mask_picture(mask: object, where: str) -> Picture:
    """The only mask of a batch `[B, H, W]` or `[H, W]`, values 0..1, as an image that is white at 1. Raises
    SettingsError if there are more, if it is of another shape, or empty."""
    if not isinstance(mask, torch.Tensor) or mask.is_meta or not mask.is_floating_point():
        found = mask.dtype if isinstance(mask, torch.Tensor) else type(mask).__name__
        raise SettingsError(f"{where} is of the kind {found!s:.60}; a mask is wanted.", LOOK)
    if not 0 < mask.numel() <= MAX_PIXELS:
        raise SettingsError(f"{where} has the shape {tuple(mask.shape)}; one mask is wanted.", LOOK)
    masks = mask.detach().float().reshape((-1, *mask.shape[-2:])) if mask.ndim in (2, 3) else mask
    if masks.ndim != 3 or len(masks) != 1 or not torch.isfinite(masks).all():
        raise SettingsError(
            f"{where} has the shape {tuple(mask.shape)}; one mask is wanted.", "Connect a MASK of one image."
        )
    if not torch.count_nonzero(masks):
        raise SettingsError(
            f"{where} is empty: no step could change anything.",
            "Paint what a step may change, or disconnect the mask.",
        )
    return Picture(Image.fromarray(np.clip(255.0 * masks[0].cpu().numpy(), 0, 255).astype(np.uint8), "L"))


def only_picture(batch: Any, where: str) -> Picture:
    """The only picture of an image batch; raises SettingsError if there are more."""
    pictures = to_pictures(batch)
    if len(pictures) != 1:
        raise SettingsError(
            f"{where} has {len(pictures)} images, but one is wanted.",
            "Take one of them (Image From Batch), or set the batch size to 1.",
        )
    return pictures[0]
