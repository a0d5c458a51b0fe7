"""Image filters on tensors (channels, height, width) with values 0..255: blur, luma, pooling, masks."""

from __future__ import annotations

import torch
import torch.nn.functional as functional

Planes = torch.Tensor
"""Shape (channels, height, width), float32."""

LUMA = (0.299, 0.587, 0.114)
"""ITU-R BT.601."""


def luma(image: Planes) -> Planes:
    """Return the luma of an RGB image, shape (1, height, width)."""
    red, green, blue = image
    return (LUMA[0] * red + LUMA[1] * green + LUMA[2] * blue)[None]


def luma_and_chroma(image: Planes) -> Planes:
    """Return luma and the two color differences of JPEG, shape (3, height, width)."""
    y = luma(image)
    return torch.cat((y, (image[2:] - y) * 0.564, (image[:1] - y) * 0.713))


def blurred(image: Planes, sigma: float) -> Planes:
    """Return the image blurred by a Gaussian, with repeated edges."""
    if sigma <= 0:
        return image
    radius = max(1, round(3 * sigma))
    # A border can be repeated by less than the side of the image.
    radius = min(radius, image.shape[1] - 1, image.shape[2] - 1)
    offsets = torch.arange(-radius, radius + 1, dtype=image.dtype)
    kernel = torch.exp(-0.5 * (offsets / sigma) ** 2)
    kernel = kernel / kernel.sum()
    one = image[:, None]
    one = functional.conv2d(
        functional.pad(one, (radius, radius, 0, 0), "replicate"), kernel[None, None, None]
    )
    one = functional.conv2d(
        functional.pad(one, (0, 0, radius, radius), "replicate"), kernel[None, None, :, None]
    )
    return one[:, 0]


def shrunk(image: Planes, factor: int) -> Planes:
    """Return the image at a fraction of its size, each pixel the mean of factor x factor pixels."""
    return functional.avg_pool2d(image[None], factor, ceil_mode=True, count_include_pad=False)[0]


def enlarged(image: Planes, size: tuple[int, int], mode: str = "bilinear") -> Planes:
    """Return the image at a size (height, width)."""
    corners = None if mode == "nearest" else False
    return functional.interpolate(image[None], size, mode=mode, align_corners=corners)[0]


def dilated(mask: Planes, radius: int) -> Planes:
    """Return the largest value in a square of this radius: a mask of 0 and 1, grown."""
    side = 2 * radius + 1
    rows = functional.max_pool2d(mask[None], (side, 1), 1, (radius, 0))
    return functional.max_pool2d(rows, (1, side), 1, (0, radius))[0]


def eroded(mask: Planes, radius: int) -> Planes:
    """Return a mask (0 or 1) shrunk by a square of this radius; beyond the border counts as inside."""
    return 1 - dilated(1 - mask, radius)


def local_range(image: Planes, radius: int) -> Planes:
    """Return the difference of the largest and smallest value in a square of this radius."""
    return dilated(image, radius) + dilated(-image, radius)


def connected(low: Planes, high: Planes) -> Planes:
    """Return the parts of `low` that are connected to a pixel of `high`, both masks of 0 and 1."""
    found = low * high
    while True:
        # Two steps per comparison: a comparison costs about as much as a step.
        grown = dilated(dilated(found, 1) * low, 1) * low
        if torch.equal(grown, found):
            return found
        found = grown


def gradients(image: Planes) -> tuple[Planes, Planes]:
    """Return the differences to the next pixel to the right and below, the last row and column left out."""
    return image[:, :-1, 1:] - image[:, :-1, :-1], image[:, 1:, :-1] - image[:, :-1, :-1]


def correlation(first: torch.Tensor, second: torch.Tensor, weight: torch.Tensor) -> float:
    """Return the weighted correlation of two tensors without subtracting their means; 1 if both are 0."""
    product = (weight * first * second).sum()
    size = ((weight * first * first).sum() * (weight * second * second).sum()).sqrt()
    return float(product / size) if size > 0 else 1.0
