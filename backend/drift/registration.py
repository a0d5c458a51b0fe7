"""Finds how an edit moved the whole image: an affine map of at most a few percent, to a fraction of a pixel.

Tiles of both images are compared by phase correlation, which does not depend on their brightness. Tiles that
the edit changed give shifts that do not agree with the others, and RANSAC leaves them out.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as functional

from .filters import Planes

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
    tops, lefts = _places(height, side), _places(width, side)
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


def _places(length: int, side: int) -> list[int]:
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
