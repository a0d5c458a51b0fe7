"""How an edit moved and relit the whole image: an affine map, and a smooth change of light.

The map is of at most a few percent, to a fraction of a pixel. Tiles of both images are compared by phase
correlation, which does not depend on their brightness. Tiles that the edit changed give shifts that do not
agree with the others, and RANSAC leaves them out.

Per color channel, the change of light is a sum of few functions of the pixel's color and place: a shift, a
gain, a gamma, a mixture of the other channels, and gains that vary over the image. It is fitted by ridge
regression with Tukey weights, so pixels that an edit changed lose their influence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as functional

from .filters import Planes, enlarged

TILE = 64
TILES_PER_SIDE = 20
MAX_SHIFT = 17
"""Largest shift of a tile that is believed, in pixels."""
LOW_PASS = 0.16
"""Standard deviation of the low pass in cycles per pixel: fine detail is what an edit loses first."""
PEAK_RATIO = 1.7
MIN_DEVIATION = 1.5
TRIPLES = 300
TOLERANCE = 0.5
MIN_INLIERS = 6
MAX_DEFORMATION = 0.03
LEAST_MOVE = 0.25
"""Maps that move no corner by more than this many pixels are ignored: a resampling would cost more."""


@dataclass(frozen=True)
class Registration:
    """The map of the edit. `moved` is (2, 3): pixel (x, y, 1) of BEFORE is at this place of AFTER.

    `moved` is `None` if nothing moved. `agrees` is False if textured tiles do not agree on one map.
    """

    moved: torch.Tensor | None
    agrees: bool


def register(before: Planes, after: Planes) -> Registration:
    """Find the map from the luma of an image to the luma of its edit, both (1, height, width)."""
    centers, shifts, textured = _shifts(before, after)
    if len(centers) < MIN_INLIERS:
        # Nothing to see: a flat image, or one whose texture the edit replaced.
        return Registration(None, agrees=textured < MIN_INLIERS)
    found = _ransac(centers, centers + shifts)
    if found is None:
        return Registration(None, agrees=False)
    height, width = before.shape[-2:]
    corners = torch.tensor([[0, 0, 1], [width, 0, 1], [0, height, 1], [width, height, 1]], dtype=found.dtype)
    moves = (corners @ found.T - corners[:, :2]).norm(dim=1)
    return Registration(found.float() if moves.max() >= LEAST_MOVE else None, agrees=True)


def moved_back(after: Planes, moved: torch.Tensor) -> tuple[Planes, Planes]:
    """Return AFTER in the frame of BEFORE, and a mask (1, height, width) of pixels that AFTER contains."""
    height, width = after.shape[-2:]
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    points = torch.stack((columns, rows, torch.ones_like(rows)), -1).to(after.dtype)
    places = points @ moved.to(after.dtype).T
    inside = (places >= 0) & (places <= torch.tensor([width - 1, height - 1]))
    grid = (places + 0.5) * 2 / torch.tensor([width, height]) - 1
    image = functional.grid_sample(
        after[None], grid[None], mode="bicubic", padding_mode="border", align_corners=False
    )[0]
    return image.clamp(0, 255), inside.all(-1)[None].to(after.dtype)


def _shifts(before: Planes, after: Planes) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Return centers and shifts (x, y) of the tiles with a clear shift, and the number of textured tiles."""
    height, width = before.shape[-2:]
    side = min(TILE, height, width)
    tops, lefts = _tile_places(height, side), _tile_places(width, side)
    corners = [(top, left) for top in tops for left in lefts]
    window = torch.hann_window(side, periodic=False)
    window = window[:, None] * window[None]
    first, second = (_tiles(image[0], corners, side) for image in (before, after))
    textured = (first.std((1, 2)) >= MIN_DEVIATION) & (second.std((1, 2)) >= MIN_DEVIATION)
    spectra = [torch.fft.rfft2((one - one.mean((1, 2), keepdim=True)) * window) for one in (first, second)]
    cross = spectra[1] * spectra[0].conj()
    rows, columns = torch.fft.fftfreq(side)[:, None], torch.fft.rfftfreq(side)[None]
    low_pass = torch.exp(-0.5 * (rows**2 + columns**2) / LOW_PASS**2)
    surface = torch.fft.irfft2(cross / cross.abs().clamp_min(1e-6) * low_pass, s=(side, side))
    shifts, ratios = _peaks(surface)
    clear = textured & (ratios >= PEAK_RATIO) & (shifts.abs().amax(1) <= MAX_SHIFT)
    centers = torch.tensor([(left + side / 2 - 0.5, top + side / 2 - 0.5) for top, left in corners])
    return centers[clear].double(), shifts[clear].double(), int(textured.sum())


def _tile_places(length: int, side: int) -> list[int]:
    count = min(TILES_PER_SIDE, max(1, (length - side) // (side // 4) + 1))
    return [round(place) for place in torch.linspace(0, length - side, count).tolist()]


def _tiles(image: torch.Tensor, corners: list[tuple[int, int]], side: int) -> torch.Tensor:
    return torch.stack([image[top : top + side, left : left + side] for top, left in corners])


def _peaks(surface: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the place of each surface's peak as (x, y), to a fraction, and its ratio to the second peak."""
    count, side, _ = surface.shape
    flat = surface.reshape(count, -1)
    best, place = flat.max(1)
    rows, columns = place // side, place % side
    index = torch.arange(count)

    def at(down: int, right: int) -> torch.Tensor:
        return surface[index, (rows + down) % side, (columns + right) % side]

    def fraction(less: torch.Tensor, more: torch.Tensor) -> torch.Tensor:
        bend = (2 * best - less - more).clamp_min(1e-9)
        return ((more - less) / (2 * bend)).clamp(-0.5, 0.5)

    y = _signed(rows, side) + fraction(at(-1, 0), at(1, 0))
    x = _signed(columns, side) + fraction(at(0, -1), at(0, 1))
    # The second peak: outside of the first one's width.
    near = torch.arange(-4, 5)
    others = surface.clone()
    others[
        index[:, None, None],
        ((rows[:, None] + near) % side)[:, :, None],
        ((columns[:, None] + near) % side)[:, None, :],
    ] = -1
    second = others.reshape(count, -1).amax(1).clamp_min(1e-9)
    return torch.stack((x, y), 1), best / second


def _signed(place: torch.Tensor, side: int) -> torch.Tensor:
    return torch.where(place > side // 2, place - side, place).float()


def _ransac(sources: torch.Tensor, targets: torch.Tensor) -> torch.Tensor | None:
    """Return the affine map (2, 3) that most tiles agree on, `None` if there is none."""
    count = len(sources)
    points = torch.cat((sources, torch.ones(count, 1, dtype=sources.dtype)), 1)
    # Always the same triples, so that an image always gives the same result.
    random = torch.Generator().manual_seed(0)
    triples = torch.rand(TRIPLES, count, generator=random).topk(3, 1).indices
    corners = points[triples]
    triples = triples[torch.linalg.det(corners).abs() > TILE * TILE]
    if not len(triples):
        return None
    maps = torch.linalg.solve(points[triples], targets[triples]).transpose(1, 2)
    maps = maps[_deformation(maps) <= MAX_DEFORMATION]
    if not len(maps):
        return None
    distances = (points @ maps.transpose(1, 2) - targets).norm(dim=2)
    inliers = distances[int((distances <= TOLERANCE).sum(1).argmax())] <= TOLERANCE
    found = None
    for _ in range(3):
        if int(inliers.sum()) < MIN_INLIERS:
            return None
        found = torch.linalg.lstsq(points[inliers], targets[inliers]).solution.T
        inliers = (points @ found.T - targets).norm(dim=1) <= TOLERANCE
    return found if found is not None and float(_deformation(found[None])[0]) <= MAX_DEFORMATION else None


def _deformation(maps: torch.Tensor) -> torch.Tensor:
    """Return how far the linear part of maps (n, 2, 3) is from the identity."""
    return (maps[:, :, :2] - torch.eye(2, dtype=maps.dtype)).abs().amax((1, 2))


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
