"""A run as an animated image (GIF, or WebP in full color), and the frames that MP4 shares.

There is one frame per step, shown long enough to read. All frames have the same size with the image in the
middle, because an animation cannot change its size. With every attempt shown, attempts that were not kept are
shorter and labeled with their outcome.

Each GIF frame has its own palette of 256 colors, so a drawing with at most 256 colors is exact. WebP has more
pixels and smaller files. It is lossy, at a quality at which drawings show no ringing.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, features

from ...core.errors import SettingsError
from ...core.pictures import Picture
from ...core.types import StopReason, Trajectory
from ...story.outcomes import kept_word, outcome, stop_sentence, story_steps
from ..report.export_options import PLAIN, ExportOptions, Panel, Words, given_panels, panels_of
from .export_files import exif_of, gif_comment, write_whole
from .pdf import INK, PAPER, SOFT, Color
from .typesetting import Block, drawable, wrap

MIN_SECONDS, MAX_SECONDS = 0.1, 60.0
MIN_SIDE = 256
Box = tuple[int, int, int, int]
"""Left, top, width and height in pixels."""
CAPTION_LINES = 3
TEXT_LINES = 16


@dataclass(frozen=True)
class Film:
    """Content of an animation.

    Attributes:
        seconds: Duration of a step, 0.1 to 60.
        attempts: Whether to show every attempt, or only the chosen ones.
        captions: Whether to show the texts.
        options: Title, language and audience.
    """

    seconds: float = 2.0
    attempts: bool = False
    captions: bool = True
    options: ExportOptions = PLAIN


@dataclass(frozen=True)
class Frame:
    """An image, or a text instead of it, with a caption, an outcome, and its share of a step's duration.

    `step` is the number of its step; `None` for a title and the note on missing steps.
    """

    picture: Picture | None
    words: str
    mark: str
    share: float
    step: int | None = None


def film_frames(trajectory: Trajectory, side: int, film: Film) -> tuple[list[Image.Image], list[int]]:
    """Render the frames of an animation.

    Args:
        trajectory: A run, finished or not.
        side: Maximum side of an image in pixels.
        film: Content of the animation.

    Returns:
        The frames, and the duration of each in milliseconds. An attempt that was not kept has half the
        duration of a step.

    Raises:
        SettingsError: `film.seconds` is out of range.
    """
    if not MIN_SECONDS <= film.seconds <= MAX_SECONDS:
        raise SettingsError(f"seconds must be {MIN_SECONDS:g} to {MAX_SECONDS:g}, not {film.seconds:g}.")
    frames = frames_of(trajectory, film)
    times = [round(1000 * film.seconds * frame.share) for frame in frames]
    return render(frames, side, film.captions), times


def frames_of(trajectory: Trajectory, film: Film) -> list[Frame]:
    """Return what the frames of a film show, in order."""
    if film.options.audience:
        panels = panels_of(trajectory) or (Panel(number=1, text=film.options.title_of(trajectory)),)
        frames = [Frame(panel.picture, panel.text, "", 1.0, panel.number) for panel in panels]
    else:
        frames = _frames(trajectory, film.attempts, drawable(film.options.words))
    if title := film.options.title.strip():
        frames.insert(0, Frame(None, title, "", 1.0))
    return frames


def render(frames: list[Frame], side: int, captions: bool) -> list[Image.Image]:
    """Render frames as RGB images of one size.

    Args:
        frames: What they show.
        side: Maximum side of an image in pixels.
        captions: Whether to write the texts below the images.
    """
    layout = _Layout(frames, side, captions)
    return [layout.draw(frame) for frame in frames]


def picture_boxes(frames: list[Frame], side: int, captions: bool) -> list[Box | None]:
    """Return where `render` puts the image of each frame; `None` for a frame without one."""
    layout = _Layout(frames, side, captions)
    return [layout.box(frame.picture) if frame.picture else None for frame in frames]


def write_film(frames: list[Image.Image], times: list[int], path: Path, kind: str, **options: Any) -> Path:
    """Write the frames as one file that repeats endlessly.

    Raises:
        JournalError: The file cannot be written.
    """
    buffer = io.BytesIO()
    frames[0].save(buffer, kind, save_all=True, append_images=frames[1:], duration=times, loop=0, **options)
    write_whole(path, buffer.getvalue())
    return path


def _frames(trajectory: Trajectory, attempts: bool, words: Words) -> list[Frame]:
    frames = [Frame(panel.picture, "", "", 1.0) for panel in given_panels(trajectory)]
    missing = 0
    for shown in story_steps(trajectory):
        step, result = shown.step, shown.result
        story = step.auxiliary_text or step.instruction or step.name
        if result is None:
            missing += 1
            continue
        if attempts:
            for number, attempt in enumerate(result.attempts):
                if number != result.chosen and attempt.image:
                    what = words.heard(outcome(attempt, trajectory.settings).label)
                    mark = f"{words.say('attempt {number}', number=number + 1)}: {what}"
                    frames.append(Frame(attempt.image, story, mark, 0.5, step.number))
        quiet = result.stop_reason in (StopReason.accepted, StopReason.text_only, StopReason.skipped)
        mark = "" if quiet else words.heard(stop_sentence(result))
        if attempts and result.chosen is not None:
            what = words.heard(outcome(result.attempts[result.chosen], trajectory.settings).label)
            kept = words.say(kept_word(result, result.chosen))
            mark = f"{words.say('attempt {number}', number=result.chosen + 1)}: {what}, {kept}"
        if result.image or story:
            frames.append(Frame(result.image, story, mark, 1.0, step.number))
    if missing or not frames:
        steps = len(story_steps(trajectory))
        text = words.say("Not reached: {missing} of {steps} steps.", missing=missing, steps=steps)
        frames.append(Frame(None, text, "", 1.0))
    return frames


class _Layout:
    """The dimensions shared by all frames."""

    def __init__(self, frames: list[Frame], side: int, captions: bool) -> None:
        sizes = [frame.picture.size for frame in frames if frame.picture] or [(side, side * 3 // 4)]
        largest = max(max(size) for size in sizes)
        self._scale = min(1.0, side / largest) if largest >= MIN_SIDE else MIN_SIDE / largest
        self.width, self.height = (
            max(1, round(max(lengths) * self._scale)) for lengths in zip(*sizes, strict=True)
        )
        self.letters = max(12, min(self.width, 640) // 26)
        self.small, self.gap = max(10, self.letters * 3 // 4), self.letters // 2
        self.captions = captions
        words = [self._words(frame).height + self._mark(frame).height for frame in frames if frame.picture]
        self.below = 2 * self.gap + max(words, default=0) if captions else 0

    def draw(self, frame: Frame) -> Image.Image:
        """Render a frame as an RGB image of `width` by `height` + `below` pixels."""
        image = Image.new("RGB", (self.width, self.height + self.below), PAPER)
        canvas = ImageDraw.Draw(image)
        if frame.picture is None:
            lines = max(1, (self.height + self.below) // round(self.letters * 1.35) - 2)
            block = wrap(frame.words, self.letters, self.width - 4 * self.gap, min(TEXT_LINES, lines))
            top = (self.height + self.below - block.height - self._mark(frame).height) // 2
            top = self._write(canvas, block, 2 * self.gap, top, INK)
            self._write(canvas, self._mark(frame), 2 * self.gap, top, SOFT)
            return image
        left, top, width, height = self.box(frame.picture)
        fitted = frame.picture.image.resize((width, height), Image.Resampling.LANCZOS)
        image.paste(fitted, (left, top))
        if self.captions:
            top = self._write(canvas, self._words(frame), self.gap, self.height + self.gap, INK)
            self._write(canvas, self._mark(frame), self.gap, top, SOFT)
        return image

    def box(self, picture: Picture) -> Box:
        """Return where an image is, in pixels."""
        width, height = (max(1, round(length * self._scale)) for length in picture.size)
        return (self.width - width) // 2, (self.height - height) // 2, width, height

    def _words(self, frame: Frame) -> Block:
        return wrap(frame.words, self.letters, self.width - 2 * self.gap, CAPTION_LINES)

    def _mark(self, frame: Frame) -> Block:
        return wrap(frame.mark, self.small, self.width - 2 * self.gap, 1)

    @staticmethod
    def _write(canvas: ImageDraw.ImageDraw, block: Block, left: int, top: int, color: Color) -> int:
        for line in block.lines:
            canvas.text((left, top), line, font=block.font, fill=color)
            top += block.pitch
        return top


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
