"""A smooth change of light between two images of the same scene, fitted where they agree.

Per color channel, the change is a sum of few functions of the pixel's color and place: a shift, a gain, a
gamma, a mixture of the other channels, and gains that vary over the image. It is fitted by ridge regression
with Tukey weights, so pixels that an edit changed lose their influence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from .filters import Planes, enlarged

CUBIC = 0.6
"""Weight of the cubic gains: they must not follow small things."""
RIDGE = 2e-4
SCHEDULES = ((40, 25, 16, 11, 8, 7, 7), (18, 13, 10, 8, 7, 7))
"""Widths of the Tukey weights per round; the schedule with more agreeing pixels wins."""
AGREES = 7.0
"""Largest difference of a pixel that agrees with the fit."""
CLIPPED = (3.0, 252.0)
CLIPPED_WEIGHT = 0.02
MOST_PIXELS = 12_000
GAIN_SIDE = 64
OTHER_ROWS, GAIN_ROWS = slice(0, 4), slice(4, None)
"""Rows of the coefficients: shift, gamma and other channels, then the gains."""


@dataclass(frozen=True)
class Light:
    """A fitted change of light. `weights` has a column of coefficients per channel."""

    weights: torch.Tensor
    agreeing: float
    """Share of the fitted pixels that agree."""

    def applied(self, image: Planes) -> Planes:
        """Return an image (3, height, width) in the new light, 0..255."""
        height, width = image.shape[-2:]
        # The gain is smooth, so a small field that is enlarged costs less and is the same.
        right, down = _places(min(height, GAIN_SIDE), min(width, GAIN_SIDE))
        fields = torch.stack([torch.ones_like(right), *_gains(right, down)])
        gains = torch.einsum("fc,fhw->chw", self.weights[GAIN_ROWS], fields)
        planes = []
        for channel in range(3):
            shift, gamma, first, second = self.weights[OTHER_ROWS, channel]
            color = image[channel] / 255
            factor = enlarged(gains[channel][None], (height, width))[0]
            factor += gamma * color.clamp_min(1 / 255).log_()
            factor *= color
            one, other = _others(channel)
            factor += shift + (first * image[one] + second * image[other]) / 255
            planes.append(factor.mul_(255).add_(image[channel]).clamp_(0, 255))
        return torch.stack(planes)


def fit_light(source: Planes, target: Planes, weight: Planes) -> Light:
    """Fit the change of light from an image to another one.

    Args:
        source: The image, (3, height, width), 0..255. A small copy is enough.
        target: The image in the new light, of the same size.
        weight: Weight of each pixel, (1, height, width).
    """
    usable = weight[0] > 0
    # A sample of some thousand pixels gives the same fit.
    step = max(1, math.isqrt(int(usable.sum()) // MOST_PIXELS))
    usable &= _grid(usable.shape, step)
    low, high = CLIPPED
    columns, values, weights = [], [], []
    for channel in range(3):
        functions = torch.stack([one[usable] for one in _functions(source, channel)], 1)
        both = torch.stack((source[channel], target[channel]))
        clipped = ((both < low) | (both > high)).any(0)[usable]
        columns.append(functions.double())
        values.append(((target[channel] - source[channel]) / 255)[usable].double())
        weights.append((weight[0][usable] * torch.where(clipped, CLIPPED_WEIGHT, 1.0)).double())
    return max(
        (_fitted(columns, values, weights, one) for one in SCHEDULES), key=lambda light: light.agreeing
    )


def _grid(shape: torch.Size, step: int) -> torch.Tensor:
    """Return a mask of every `step`-th pixel of every `step`-th row."""
    mask = torch.zeros(shape, dtype=torch.bool)
    mask[::step, ::step] = True
    return mask


def _fitted(
    columns: list[torch.Tensor],
    values: list[torch.Tensor],
    weights: list[torch.Tensor],
    schedule: tuple[int, ...],
) -> Light:
    predicted = [torch.full_like(one, _mode(one)) for one in values]
    found = []
    distance = _distance(values, predicted)
    for width in schedule:
        trust = (1 - (distance / width).square()).clamp_min(0).square()
        found = []
        for functions, value, weight in zip(columns, values, weights, strict=True):
            trusted = functions * (weight * trust)[:, None]
            square = trusted.T @ functions
            square.diagonal().add_(RIDGE * len(value))
            found.append(torch.linalg.solve(square, trusted.T @ value))
        predicted = [one @ weight for one, weight in zip(columns, found, strict=True)]
        distance = _distance(values, predicted)
    agreeing = float((distance < AGREES).double().mean()) if len(distance) else 0.0
    return Light(torch.stack(found, 1).float(), agreeing)


def _distance(values: list[torch.Tensor], predicted: list[torch.Tensor]) -> torch.Tensor:
    """Return the largest difference of the three channels of each pixel, in steps of 0..255."""
    differences = [(one - other).abs() for one, other in zip(values, predicted, strict=True)]
    return 255 * torch.stack(differences).amax(0)


def _mode(values: torch.Tensor) -> float:
    """Return the most frequent difference, -1..1: most pixels of an edit changed by the same amount."""
    counts = torch.histc(values, 128, -1, 1)
    # Neighboring bins count too, so that one value on a border is not split.
    smooth = torch.nn.functional.conv1d(
        counts[None, None], torch.ones(1, 1, 3, dtype=counts.dtype), padding=1
    )
    return (int(smooth.argmax()) + 0.5) / 64 - 1


def _places(height: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the coordinates (right, down) of the middle of each pixel, -1..1."""
    down, right = ((2 * torch.arange(side) + 1) / side - 1 for side in (height, width))
    return right[None].expand(height, width), down[:, None].expand(height, width)


def _gains(right: torch.Tensor, down: torch.Tensor) -> list[torch.Tensor]:
    """Return the functions of the place that a gain consists of, without the constant."""
    across, along = right * right, down * down
    cubic = (across * right, across * down, along * right, along * down)
    return [right, down, across, along, right * down, *(CUBIC * one for one in cubic)]


def _others(channel: int) -> tuple[int, int]:
    first, second = (one for one in range(3) if one != channel)
    return first, second


def _functions(image: Planes, channel: int) -> list[torch.Tensor]:
    """Return the functions of a channel's change: shift, gamma, other channels, gains."""
    color = image[channel] / 255
    others = [image[one] / 255 for one in _others(channel)]
    gains = [color * one for one in _gains(*_places(*color.shape))]
    # The derivative of a power of the color by its exponent, at 1.
    gamma = color * color.clamp_min(1 / 255).log()
    return [torch.ones_like(color), gamma, *others, color, *gains]
