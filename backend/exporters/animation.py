"""A run as an animated image: GIF, which every program can show, or WebP in full color.

Each GIF frame has its own palette of 256 colors, so a drawing with at most 256 colors is exact. WebP has more
pixels and smaller files. It is lossy, at a quality at which drawings show no ringing.
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
    """Writes an animated image.

    Attributes:
        file_name: Name of the file.
        side: Maximum side of an image in pixels.
        write: Encodes the frames. Its arguments are the frames, their durations in milliseconds, the path,
            and the texts to embed by name.
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
        """Write the animation and return its path.

        Args:
            trajectory: A run, finished or not.
            folder: Folder to write into.
            seconds: Duration of a step, 0.1 to 60.
            attempts: Whether to show every attempt.
            options: Title, language and audience. A given title gets a frame of its own.
            metadata: Texts to embed in the file by name, such as the workflow.

        Raises:
            SettingsError: A value is out of range, or WebP is not supported.
            JournalError: The folder cannot be written.
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
        raise SettingsError(
            "This installation of Pillow cannot write WebP.", "Run: pip install --upgrade pillow"
        )
    return write_film(frames, times, path, "WEBP", quality=WEBP_QUALITY, method=4, **exif_of(metadata))


export_gif = AnimationExporter("story.gif", 640, _write_gif)
export_webp = AnimationExporter("story.webp", 1024, _write_webp)
