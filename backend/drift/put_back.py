"""Puts the pixels of BEFORE back into AFTER where the edit did not need to change them.

An image model redraws the whole image for every edit: it shifts it by a pixel, changes its light a little
and softens it. Over many steps this adds up. Here the shift and the light are estimated, what differs beyond
them is the edit, and everything else gets the pixels of BEFORE. If the images differ in another way (new
light, new scene, new style), AFTER is returned as it is, with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .changes import changed
from .filters import (
    Planes,
    blurred,
    correlation,
    dilated,
    gradients,
    luma,
    luma_and_chroma,
    shrunk,
)
from .light import fit_light
from .registration import moved_back, register

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
    reason = _reason(before, predicted, framed, mask, known, share)
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


def _reason(
    before: Planes, predicted: Planes, after: Planes, mask: Planes, known: Planes, share: float
) -> str:
    """Return why nothing can be put back, "" if it can."""
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
