"""Puts the pixels of BEFORE back into AFTER where the edit did not need to change them.

An image model redraws the whole image for every edit: it shifts it by a pixel, changes its light a little
and softens it. Over many steps this adds up. Here the shift and the light are estimated, what differs beyond
them is the edit, and everything else gets the pixels of BEFORE. If the images differ in another way (new
light, new scene, new style), AFTER is returned as it is, with the reason.

An edit model changes most of all fine detail. So the noise is measured per amount of local detail, as the
median difference of pixels with about as much of it; differences above it are the change.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .alignment import fit_light, moved_back, register
from .filters import (
    Planes,
    blurred,
    connected,
    correlation,
    dilated,
    enlarged,
    eroded,
    gradients,
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
COARSE_MASK = 4


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
    small = shrunk(difference, COARSE_MASK)
    coarse = _mask(
        small,
        luma(shrunk(predicted, COARSE_MASK)),
        shrunk(known, COARSE_MASK),
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


SMALL = 4
"""Factor of the small copies that the light is fitted to."""
SOFTNESS = (0.0, 0.5, 0.7, 0.9, 1.2, 1.6)
"""Blurs that are tried, in pixels."""
BORDER = 8
FEATHER = 2.0
CLEARANCE = 6
"""Distance from the change, in pixels, of what its light is fitted to."""
FADING = 6.0
REACH = 48
"""Pixels around the change that its border is made of."""
BAND = 64
MOST_CHANGED, LEAST_CHANGED = 0.7, 2e-5
MOST_DIFFERENT = 24.0
LEAST_GRADIENT, LEAST_FINE = 0.55, 0.25
COARSE, MOST_COARSE_MEDIAN, MOST_COARSE_TAIL = 16, 0.8, 2.5
SATURATION = (0.7, 1.4)


@dataclass(frozen=True)
class Restored:
    """The result, (3, height, width), 0..255, and the share of the image that the edit changed.

    If `refused` is not empty, it is the reason why `image` is AFTER itself.
    """

    image: Planes
    changed: float
    refused: str = ""


def restored(before: Planes, after: Planes) -> Restored:
    """Put the pixels of `before` back into `after`, both (3, height, width) of one size, 0..255."""
    registration = register(luma(before), luma(after))
    if not registration.agrees:
        return Restored(after, 1.0, "the whole image differs")
    framed, known = after, torch.ones_like(after[:1])
    if registration.moved is not None:
        framed, known = moved_back(after, registration.moved)
    predicted = _predicted(before, framed, known)
    mask = changed(predicted, framed, known)
    share = float(mask.mean())
    reason = refusal(before, predicted, framed, mask, known, share)
    if reason:
        return Restored(after, share, reason)
    return Restored(_composed(before, framed, mask, known), share)


def _predicted(before: Planes, after: Planes, known: Planes) -> Planes:
    """Return BEFORE in the light and softness of AFTER."""
    weight = (shrunk(known, SMALL) > 0.99).float()
    light = fit_light(shrunk(before, SMALL), shrunk(after, SMALL), weight)
    lit = light.applied(before)
    rows = _sample(lit.shape[1])
    bright, target = luma(lit[:, rows]), luma(after[:, rows])
    agrees = ((bright - target).abs() < 12) & (known[:, rows] > 0.99)
    best = min(SOFTNESS, key=lambda sigma: _tail(blurred(bright, sigma) - target, agrees))
    return blurred(lit, best)


def _sample(height: int) -> torch.Tensor:
    """Return the rows of bands that are a fourth of a large image, all rows of a small one."""
    rows = torch.arange(height)
    return rows if height < 4 * BAND else rows[rows // BAND % 4 == 1]


def _tail(difference: Planes, where: torch.Tensor) -> float:
    values = difference[where].abs()
    if not len(values):
        return 0.0
    step = max(1, len(values) // 200_000)
    return float(values[::step].quantile(0.8))


def refusal(
    before: Planes, predicted: Planes, after: Planes, mask: Planes, known: Planes, share: float
) -> str:
    """Return why nothing can be put back, "" if it can.

    Args:
        before: BEFORE.
        predicted: BEFORE in the light and softness of AFTER.
        after: AFTER in the frame of BEFORE.
        mask: Mask of pixels that the edit changed.
        known: Mask of pixels that AFTER contains.
        share: Share of the image that the edit changed.
    """
    if share > MOST_CHANGED:
        return f"{100 * share:.0f} % of the image changed"
    if share < LEAST_CHANGED:
        return "nothing changed beyond light and softness"
    if float((after - before).abs().mean()) > MOST_DIFFERENT:
        return "the images differ too much"
    outside = (1 - dilated(mask, CLEARANCE)) * known
    if float(outside.mean()) < 0.05:
        return "nearly the whole image changed"
    inner = outside[:, :-1, :-1]
    pairs = [gradients(luma(one)) for one in (predicted, after)]
    first, second = (torch.cat(pair) for pair in pairs)
    if correlation(first, second, inner) < LEAST_GRADIENT:
        return "shapes outside of the change differ"
    detail, other = (luma(one) - blurred(luma(one), 2.0) for one in (predicted, after))
    if correlation(detail, other, outside) < LEAST_FINE:
        return "fine detail outside of the change differs"
    coarse = _coarse(after - predicted, outside)
    if len(coarse) and (
        float(coarse.median()) > MOST_COARSE_MEDIAN or float(coarse.quantile(0.9)) > MOST_COARSE_TAIL
    ):
        return "light or color of the whole image changed"
    slope = _saturation(before, after, outside)
    if not SATURATION[0] <= slope <= SATURATION[1]:
        return "the saturation of the whole image changed"
    return ""


def _coarse(difference: Planes, outside: Planes) -> torch.Tensor:
    """Return the mean differences of blocks that lie outside of the change."""
    weight = shrunk(outside, COARSE)
    blocks = luma_and_chroma(shrunk(difference * outside, COARSE)) / weight.clamp_min(1e-6)
    return blocks.abs().amax(0, keepdim=True)[weight > 0.5]


def _saturation(before: Planes, after: Planes, outside: Planes) -> float:
    """Return the slope of the color differences of AFTER over those of BEFORE."""
    first, second = (luma_and_chroma(shrunk(one, SMALL))[1:] for one in (before, after))
    outside = shrunk(outside, SMALL)
    size = float((outside * first * first).sum())
    return float((outside * first * second).sum()) / size if size > float(outside.sum()) else 1.0


def _composed(before: Planes, after: Planes, mask: Planes, known: Planes) -> Planes:
    """Return BEFORE with the change of AFTER in it, in the light of BEFORE and with soft borders."""
    outside = (1 - dilated(mask, CLEARANCE)) * known
    weight = (shrunk(outside, SMALL) > 0.99).float()
    light = fit_light(shrunk(after, SMALL), shrunk(before, SMALL), weight)
    result = before.clone()
    lit = light.applied(after)
    rows, columns = _around(mask[0])
    place = (slice(None), rows, columns)
    part, old, away = lit[place], before[place], outside[place]
    part = part + _border(old - part, away)
    alpha = blurred(dilated(mask[place], BORDER), FEATHER) * known[place]
    alpha = torch.where(alpha < 0.01, 0.0, alpha)
    result[place] = (old + alpha * (part - old)).clamp(0, 255)
    return result


def _around(mask: torch.Tensor) -> tuple[slice, slice]:
    """Return the rows and columns of the change and its surroundings."""
    found = []
    for axis in (1, 0):
        places = mask.amax(axis).nonzero()[:, 0]
        found.append(slice(max(0, int(places[0]) - REACH), int(places[-1]) + REACH + 1))
    return found[0], found[1]


def _border(difference: Planes, outside: Planes) -> Planes:
    """Return the difference at the border of the change, fading into it, so that no edge is seen."""
    near = blurred(outside, FADING)
    return blurred(difference * outside, FADING) / near.clamp_min(1e-3) * near.clamp(0, 1) * (near > 1e-3)
