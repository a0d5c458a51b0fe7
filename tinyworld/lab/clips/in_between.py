"""Exact clips between two scenes: things move, appear, disappear and change smoothly.

A clip is a function of time from 0 to 1, so any number of frames can be rendered from it. Its first and last
frame are pixel for pixel the images of its scenes. A script can contain one planted fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from PIL import Image

from ....backend.pictures import Picture
from ...runtime.drawing import backdrop_page
from ...runtime.reading import UNREADABLE
from ...runtime.scene import EMPTY, Scene, color_and_thing, thing_of
from ...runtime.sprites import CELL, sprite

if TYPE_CHECKING:
    from collections.abc import Iterator

FRAMES = 9
"""Frames of a clip: 4n + 1 and 8n + 1, the lengths that video models accept."""
TOUCHED = 0.12
"""Share of a cell that a thing of another place must cover for the cell to be unreadable."""
CLEAR = 0.9
"""Visible share from which on a thing counts as fully visible."""


@dataclass(frozen=True)
class Track:
    """A thing in a clip: content and cell at the start and at the end. EMPTY: not there yet, or gone."""

    start: int
    end: int
    from_cell: int
    to_cell: int

    @property
    def changes(self) -> bool:
        """Whether the thing moves, appears, disappears or changes."""
        return (self.start, self.from_cell) != (self.end, self.to_cell)


@dataclass(frozen=True)
class Hidden:
    """A planted fault: the thing of a track is not visible from `begin` to `end`."""

    track: Track
    begin: float
    end: float


@dataclass(frozen=True)
class Stranger:
    """A planted fault: a thing of neither scene is visible from `begin` to `end`."""

    identity: int
    cell: int
    begin: float
    end: float


@dataclass(frozen=True)
class Placed:
    """A thing in a frame: two contents and the share of the second, top left corner in cells, opacity."""

    contents: tuple[int, int]
    share: float
    x: float
    y: float
    visible: float

    def covers(self, cell: int) -> float:
        """Return which share of a cell its tile covers."""
        wide = max(0.0, 1 - abs(self.x - cell % 3))
        high = max(0.0, 1 - abs(self.y - cell // 3))
        return wide * high


@dataclass(frozen=True)
class ClipScript:
    """A clip from one scene to another.

    Attributes:
        before: Scene of the first frame.
        after: Scene of the last frame.
        cut: Time at which everything changes at once. `None`: it changes smoothly.
        hidden: A thing that is not visible for a time.
        stranger: A thing that should not be there.
    """

    before: Scene
    after: Scene
    cut: float | None = None
    hidden: Hidden | None = None
    stranger: Stranger | None = None

    def progress(self, time: float) -> float:
        """Return how much of the change is done at a time."""
        return time if self.cut is None else float(time >= self.cut)

    def placed(self, time: float) -> Iterator[Placed]:
        """Yield the visible things at a time, from back to front."""
        done, hidden = self.progress(time), self.hidden
        for track in tracks_of(self.before, self.after):
            if hidden and track == hidden.track and hidden.begin <= time <= hidden.end:
                continue
            visible = 1.0
            if EMPTY in (track.start, track.end):
                visible = done if track.start == EMPTY else 1 - done
            if visible == 0:
                continue
            x, y = (
                start + (end - start) * done
                for start, end in zip(_corner(track.from_cell), _corner(track.to_cell), strict=True)
            )
            contents = (track.start or track.end, track.end or track.start)
            yield Placed(contents, done, x, y, visible)
        one = self.stranger
        if one and one.begin <= time <= one.end:
            yield Placed((one.identity, one.identity), 0.0, *_corner(one.cell), 1.0)

    def frame(self, time: float) -> Picture:
        """Render the frame at a time."""
        done = self.progress(time)
        pages = [backdrop_page(scene.backdrop) for scene in (self.before, self.after)]
        page = (pages[0] if done == 0 else Image.blend(pages[0], pages[1], done)).convert("RGBA")
        for one in self.placed(time):
            tile = _tile(
                one.contents,
                round(one.share, 6) if one.contents[0] != one.contents[1] else 0.0,
                round(one.visible, 6),
            )
            page.alpha_composite(tile, (round(one.x * CELL), round(one.y * CELL)))
        return Picture(page.convert("RGB"))

    def cells(self, time: float) -> tuple[int, ...]:
        """Return what the nine cells show at a time: a content, or UNREADABLE for a part or a mixture."""
        things = list(self.placed(time))
        return tuple(_content(things, cell) for cell in range(9))

    def page(self, time: float) -> int:
        """Return the backdrop at a time; UNREADABLE for a mixture."""
        done = self.progress(time)
        if self.before.backdrop == self.after.backdrop or done == 0:
            return self.before.backdrop
        return self.after.backdrop if done == 1 else UNREADABLE


def times(count: int) -> list[float]:
    """Return the times of `count` evenly spaced frames, from 0 to 1."""
    return [index / (count - 1) for index in range(count)]


def frames_of(script: ClipScript, count: int = FRAMES) -> tuple[Picture, ...]:
    """Render evenly spaced frames."""
    return tuple(script.frame(time) for time in times(count))


@lru_cache(maxsize=4096)
def tracks_of(before: Scene, after: Scene) -> tuple[Track, ...]:
    """Return the things of two scenes: things that stay first, so that moving ones pass in front of them.

    Things of the same kind are one thing that moves or changes its color.
    """
    stays = [cell for cell in before.occupied if before.cells[cell] == after.cells[cell]]
    tracks = [Track(before.cells[cell], before.cells[cell], cell, cell) for cell in stays]
    left = [cell for cell in before.occupied if cell not in stays]
    come = [cell for cell in after.occupied if cell not in stays]
    for cell in left:
        thing = thing_of(before.cells[cell])
        to_cell = next((one for one in come if thing_of(after.cells[one]) == thing), None)
        if to_cell is None:
            tracks.append(Track(before.cells[cell], EMPTY, cell, cell))
            continue
        come.remove(to_cell)
        tracks.append(Track(before.cells[cell], after.cells[to_cell], cell, to_cell))
    return (*tracks, *(Track(EMPTY, after.cells[cell], cell, cell) for cell in come))


def _corner(cell: int) -> tuple[float, float]:
    return float(cell % 3), float(cell // 3)


def _content(things: Sequence[Placed], cell: int) -> int:
    shown = EMPTY
    for one in things:
        covered = one.covers(cell)
        if covered < TOUCHED or one.visible < 1 - CLEAR:
            continue
        mixed = one.contents[0] != one.contents[1] and 1 - CLEAR < one.share < CLEAR
        whole = covered >= CLEAR and one.visible >= CLEAR and not mixed
        shown = one.contents[round(one.share)] if whole else UNREADABLE
    return shown


@lru_cache(maxsize=4096)
def _tile(contents: tuple[int, int], share: float, visible: float) -> Image.Image:
    tiles = [_sprite(one) for one in contents]
    tile = tiles[0] if contents[0] == contents[1] else Image.blend(tiles[0], tiles[1], share)
    if visible < 1:
        tile = tile.copy()
        tile.putalpha(tile.getchannel("A").point([round(alpha * visible) for alpha in range(256)]))
    return tile


@lru_cache(maxsize=64)
def _sprite(content: int) -> Image.Image:
    return sprite(*color_and_thing(content))
