"""A run as an animated GIF, which everything shows, in 256 colours a frame.

Decision: each frame has its own colours, so a drawing that has no more of them keeps them exactly.
"""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from ..types import Trajectory
from .layout.frames import film, write_film

FILE_NAME = "story.gif"
SIDE = 640
COLORS = 256


def export(
    trajectory: Trajectory, folder: Path, seconds: float = 2.0, attempts: bool = False, captions: bool = True
) -> Path:
    """Write `folder`/story.gif, pictures at most 640 pixels a side, `seconds` (0.1..60) a step; returns its
    path.

    Raises SettingsError and JournalError.
    """
    frames, times = film(trajectory, SIDE, seconds, attempts, captions)
    few = [_few_colors(frame) for frame in frames]
    return write_film(few, times, Path(folder) / FILE_NAME, "GIF", disposal=1)


def _few_colors(image: Image.Image) -> Image.Image:
    palette = image.quantize(COLORS, Image.Quantize.MEDIANCUT)
    return image.quantize(COLORS, palette=palette, dither=Image.Dither.FLOYDSTEINBERG)
