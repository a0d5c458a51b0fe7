"""A run as an animated image: a GIF, which every program shows, or a WebP in full color.

A frame of a GIF has 256 colors of its own, so a drawing with no more colors keeps them exactly. A WebP has
more pixels and fewer bytes; it is lossy, at a quality at which drawings show no rings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, features

from ..errors import SettingsError
from ..report.export_options import PLAIN, ExportOptions
from ..types import Trajectory
from .layout.frames import Film, film_frames, write_film
from .layout.graph_in_image import exif_of, gif_comment

COLORS = 256
WEBP_QUALITY = 90

Frames = list[Image.Image]


@dataclass(frozen=True)
class AnimationExporter:
    """Writes `file_name`, its images at most `side` pixels a side.

    `write` encodes the frames, with their times in milliseconds and the texts to put into the file.
    """

    file_name: str
    side: int
    write: Callable[[Frames, list[int], Path, Mapping[str, str]], Path]

    def __call__(
        self,
        trajectory: Trajectory,
        folder: Path,
        seconds: float = 2.0,
        attempts: bool = False,
        options: ExportOptions = PLAIN,
        metadata: Mapping[str, str] | None = None,
    ) -> Path:
        """Write the animation into `folder`, `seconds` (0.1..60) a step, and return its path.

        A title that was given has a frame of its own; `metadata` (texts by name, the workflow among them) is
        put into the file. Raises SettingsError and JournalError.
        """
        frames, times = film_frames(trajectory, self.side, Film(seconds, attempts, options=options))
        return self.write(frames, times, Path(folder) / self.file_name, metadata or {})


def _write_gif(frames: Frames, times: list[int], path: Path, metadata: Mapping[str, str]) -> Path:
    few = [_few_colors(frame) for frame in frames]
    return write_film(few, times, path, "GIF", disposal=1, **gif_comment(metadata))


def _few_colors(image: Image.Image) -> Image.Image:
    palette = image.quantize(COLORS, Image.Quantize.MEDIANCUT)
    return image.quantize(COLORS, palette=palette, dither=Image.Dither.FLOYDSTEINBERG)


def _write_webp(frames: Frames, times: list[int], path: Path, metadata: Mapping[str, str]) -> Path:
    if not features.check("webp"):
        raise SettingsError("This installation of Pillow cannot write WebP.", "pip install --upgrade pillow")
    return write_film(frames, times, path, "WEBP", quality=WEBP_QUALITY, method=4, **exif_of(metadata))


export_gif = AnimationExporter("story.gif", 640, _write_gif)
export_webp = AnimationExporter("story.webp", 1024, _write_webp)
