"""Where an edit changed an image: differences above the noise that the rest of the image shows.

An edit model redraws every pixel, and most of all fine detail. So the noise is measured per amount of local
detail, as the median difference of pixels with about as much of it.
"""

from __future__ import annotations

import torch

from .filters import (
    Planes,
    blurred,
    connected,
    dilated,
    enlarged,
    eroded,
    local_range,
    luma,
    luma_and_chroma,
    shrunk,
)

SMOOTHING = 1.0
DETAIL_RADIUS = 2
LEVELS = 12
"""Number of amounts of detail whose noise is measured."""
CLOSING = 8
COARSE = 4


def changed(predicted: Planes, after: Planes, known: Planes) -> Planes:
    """Return the mask (1, height, width) of pixels that the edit changed.

    Args:
        predicted: BEFORE in the light and softness of AFTER, (3, height, width), 0..255.
        after: AFTER in the frame of BEFORE.
        known: Mask of pixels that AFTER contains; others count as unchanged.
    """
    height, width = after.shape[-2:]
    difference = luma_and_chroma(after - predicted)
    fine = _mask(difference, luma(predicted), known, high=(5.0, 5.0), low=(2.5, 2.5), share=0.3)
    small = shrunk(difference, COARSE)
    coarse = _mask(
        small,
        luma(shrunk(predicted, COARSE)),
        shrunk(known, COARSE),
        high=(4.5, 4.0),
        low=(2.2, 2.0),
        share=0.3,
    )
    both = torch.maximum(fine, enlarged(coarse, (height, width), "nearest"))
    return eroded(dilated(both, CLOSING), CLOSING) * known


def _mask(
    difference: Planes,
    brightness: Planes,
    known: Planes,
    high: tuple[float, float],
    low: tuple[float, float],
    share: float,
) -> Planes:
    """Return where the difference exceeds the noise; `high` and `low` are (factor of the noise, offset)."""
    size = blurred(difference, SMOOTHING).abs().amax(0, keepdim=True) * (known > 0.99)
    noise = _noise(size, local_range(brightness, DETAIL_RADIUS), known > 0.99)
    seeds = (size > high[0] * noise + high[1]).float()
    # A seed is more than a single pixel.
    dense = (blurred_box(seeds, 2) >= share).float() * seeds
    return connected((size > low[0] * noise + low[1]).float(), dense)


def blurred_box(image: Planes, radius: int) -> Planes:
    """Return the mean of a square of this radius around each pixel."""
    return torch.nn.functional.avg_pool2d(image[None], 2 * radius + 1, 1, radius)[0]


def _noise(size: Planes, detail: Planes, known: torch.Tensor) -> Planes:
    """Return the median difference of pixels with as much local detail, for every pixel."""
    values, amounts = size[known], detail[known]
    if not len(values):
        return torch.zeros_like(size)
    # A sample is enough for medians, and sorting all pixels would take most of the time.
    step = max(1, len(values) // 200_000)
    values, amounts = values[::step], amounts[::step]
    ordered, order = amounts.sort()
    parts = torch.arange(LEVELS + 1) * len(ordered) // LEVELS
    centers, medians = [], []
    for first, last in zip(parts[:-1].tolist(), parts[1:].tolist(), strict=True):
        if last > first:
            centers.append(ordered[first:last].median())
            medians.append(values[order[first:last]].median())
    return _interpolated(detail, torch.stack(centers), torch.stack(medians).cummax(0).values)


def _interpolated(places: Planes, centers: torch.Tensor, values: torch.Tensor) -> Planes:
    """Return a piecewise linear function at places, constant beyond its ends."""
    if len(centers) == 1:
        return torch.full_like(places, float(values[0]))
    above = torch.searchsorted(centers, places.contiguous()).clamp(1, len(centers) - 1)
    left, right = centers[above - 1], centers[above]
    share = ((places - left) / (right - left).clamp_min(1e-6)).clamp(0, 1)
    return torch.lerp(values[above - 1], values[above], share)
