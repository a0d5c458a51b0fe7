"""A run as an animated GIF, which everything shows, in 256 colours a frame.

Decision: each frame has its own colours, so a drawing that has no more of them keeps them exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from PIL import Image

from ..report.telling import PLAIN, Telling
from ..types import Trajectory
from .layout.frames import Film, film_frames, write_film
from .layout.graph_in_image import gif_comment

FILE_NAME = "story.gif"
SIDE = 640
COLORS = 256


def export(
    trajectory: Trajectory,
    folder: Path,
    seconds: float = 2.0,
    attempts: bool = False,
    telling: Telling = PLAIN,
    metadata: Mapping[str, str] | None = None,
) -> Path:
    """Write `folder`/story.gif, pictures at most 640 pixels a side, `seconds` (0.1..60) a step; returns its
    path.

    A title that was given has a frame of its own; `metadata` (texts by name, the workflow among them) is
    put into the file. Raises SettingsError and JournalError.
    """
    frames, times = film_frames(trajectory, SIDE, Film(seconds, attempts, telling=telling))
    few = [_few_colors(frame) for frame in frames]
    return write_film(few, times, Path(folder) / FILE_NAME, "GIF", disposal=1, **gif_comment(metadata or {}))


def _few_colors(image: Image.Image) -> Image.Image:
    palette = image.quantize(COLORS, Image.Quantize.MEDIANCUT)
    return image.quantize(COLORS, palette=palette, dither=Image.Dither.FLOYDSTEINBERG)
