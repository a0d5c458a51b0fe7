"""A run as an animated WebP: in full colour, larger in pixels and smaller in bytes than a GIF.

Decision: lossy at a quality at which drawings show no rings; who needs the exact pixels exports a comic
archive.
"""

from __future__ import annotations

from pathlib import Path

from PIL import features

from ..errors import SettingsError
from ..types import Trajectory
from .layout.frames import film, write_film

FILE_NAME = "story.webp"
SIDE = 1024
QUALITY = 90


def export(
    trajectory: Trajectory, folder: Path, seconds: float = 2.0, attempts: bool = False, captions: bool = True
) -> Path:
    """Write `folder`/story.webp, pictures at most 1024 pixels a side, `seconds` (0.1..60) a step; returns its
    path.

    Raises SettingsError and JournalError.
    """
    if not features.check("webp"):
        raise SettingsError("This installation of Pillow cannot write WebP.", "pip install --upgrade pillow")
    frames, times = film(trajectory, SIDE, seconds, attempts, captions)
    return write_film(frames, times, Path(folder) / FILE_NAME, "WEBP", quality=QUALITY, method=4)
