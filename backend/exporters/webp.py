"""A run as an animated WebP: in full colour, larger in pixels and smaller in bytes than a GIF.

Decision: lossy at a quality at which drawings show no rings; who needs the exact pixels exports a comic
archive.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from PIL import features

from ..errors import SettingsError
from ..report.telling import PLAIN, Telling
from ..types import Trajectory
from .layout.frames import Film, film_frames, write_film
from .layout.graph_in_image import exif_of

FILE_NAME = "story.webp"
SIDE = 1024
QUALITY = 90


def export(
    trajectory: Trajectory,
    folder: Path,
    seconds: float = 2.0,
    attempts: bool = False,
    telling: Telling = PLAIN,
    metadata: Mapping[str, str] | None = None,
) -> Path:
    """Write `folder`/story.webp, pictures at most 1024 pixels a side, `seconds` (0.1..60) a step; returns its
    path.

    A title that was given has a frame of its own; `metadata` (texts by name, the workflow among them) is
    put into the file. Raises SettingsError and JournalError.
    """
    if not features.check("webp"):
        raise SettingsError("This installation of Pillow cannot write WebP.", "pip install --upgrade pillow")
    frames, times = film_frames(trajectory, SIDE, Film(seconds, attempts, telling=telling))
    exif = exif_of(metadata or {})
    return write_film(frames, times, Path(folder) / FILE_NAME, "WEBP", quality=QUALITY, method=4, **exif)
