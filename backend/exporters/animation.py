"""A run as a moving picture: animated GIF, which everything shows, and animated WebP, smaller and in full colour.

Decision: one frame a step, as long as it takes to read; all frames have one size with the picture in the middle, since a
moving picture cannot change its shape. Every try can be shown too: then refused ones are short and say so.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw, features

from ..errors import SettingsError
from ..pictures import Picture
from ..types import StopReason, Trajectory
from .folder import write_whole
from .sheet_text import wrap
from .story_pages import INK, PAPER, SOFT
from .wording import outcome, stop_sentence, told_steps

GIF_NAME, WEBP_NAME = "story.gif", "story.webp"
GIF_SIDE, WEBP_SIDE = 640, 1024
SHORTEST, LONGEST = 0.1, 60.0
SMALLEST_SIDE = 256
LINES = 3
TEXT_LINES = 16


@dataclass(frozen=True)
class Frame:
    """A picture, or a text in its place, with the words below it and its share of the full time."""

    picture: Picture | None
    words: str
    mark: str
    share: float


def export_gif(
    trajectory: Trajectory, folder: Path, seconds: float = 2.0, attempts: bool = False, captions: bool = True
) -> Path:
    """Write `folder`/story.gif, at most 640 pixels a side; `seconds` (0.1..60) a step. Raises SettingsError, JournalError."""
    frames = [_few_colors(image) for image in _draw(trajectory, GIF_SIDE, seconds, attempts, captions)]
    return _write(frames, Path(folder) / GIF_NAME, "GIF", _times(trajectory, seconds, attempts), disposal=1)


def export_webp(
    trajectory: Trajectory, folder: Path, seconds: float = 2.0, attempts: bool = False, captions: bool = True
) -> Path:
    """Write `folder`/story.webp, at most 1024 pixels a side; `seconds` (0.1..60) a step. Raises SettingsError,
    JournalError."""
    if not features.check("webp"):
        raise SettingsError("This installation of Pillow cannot write WebP.", "pip install --upgrade pillow")
    frames = _draw(trajectory, WEBP_SIDE, seconds, attempts, captions)
    times = _times(trajectory, seconds, attempts)
    return _write(frames, Path(folder) / WEBP_NAME, "WEBP", times, quality=90, method=4)


def _write(frames: list[Image.Image], path: Path, kind: str, times: list[int], **options: int) -> Path:
    buffer = io.BytesIO()
    frames[0].save(buffer, kind, save_all=True, append_images=frames[1:], duration=times, loop=0, **options)
    write_whole(path, buffer.getvalue())
    return path


def _times(trajectory: Trajectory, seconds: float, attempts: bool) -> list[int]:
    return [max(20, round(1000 * seconds * frame.share)) for frame in _frames(trajectory, attempts)]


def _frames(trajectory: Trajectory, attempts: bool) -> list[Frame]:
    frames = []
    for told in told_steps(trajectory):
        step, result = told.step, told.result
        story = step.auxiliary_text or step.instruction or step.name
        if result is None:
            continue
        if attempts:
            for number, attempt in enumerate(result.attempts):
                if number != result.chosen and attempt.image:
                    mark = f"try {number + 1}: {outcome(attempt, trajectory.settings).value}"
                    frames.append(Frame(attempt.image, story, mark, 0.5))
        quiet = result.stop_reason in (StopReason.accepted, StopReason.text_only)
        mark = "" if quiet else stop_sentence(result)
        if attempts and result.chosen is not None:
            kept = outcome(result.attempts[result.chosen], trajectory.settings).value
            mark = f"try {result.chosen + 1}: {kept}, kept"
        if result.image or story:
            frames.append(Frame(result.image, story, mark, 1.0))
    return frames


def _draw(
    trajectory: Trajectory, side: int, seconds: float, attempts: bool, captions: bool
) -> list[Image.Image]:
    if not SHORTEST <= seconds <= LONGEST:
        raise SettingsError(f"seconds must be {SHORTEST:g} to {LONGEST:g}, but is {seconds:g}.")
    frames = _frames(trajectory, attempts)
    if not frames:
        raise SettingsError("No step of this run was reached, so there is nothing to show.")
    pictures = [frame.picture for frame in frames if frame.picture]
    largest = max((max(picture.size) for picture in pictures), default=side)
    scale = min(1.0, side / largest) if largest >= SMALLEST_SIDE else SMALLEST_SIDE / largest
    width = round(max((p.size[0] for p in pictures), default=side) * scale)
    height = round(max((p.size[1] for p in pictures), default=side * 3 // 4) * scale)
    return [_draw_frame(frame, (width, height), scale, captions) for frame in frames]


def _draw_frame(frame: Frame, size: tuple[int, int], scale: float, captions: bool) -> Image.Image:
    width, height = size
    letters = max(12, min(width, 640) // 26)
    gap = letters // 2
    small = max(10, letters * 3 // 4)
    below = gap + LINES * round(letters * 1.35) + round(small * 1.35) + gap if captions else 0
    image = Image.new("RGB", (width, height + below), PAPER)
    canvas = ImageDraw.Draw(image)
    if frame.picture:
        shown = tuple(max(1, round(length * scale)) for length in frame.picture.size)
        fitted = frame.picture.image.resize((shown[0], shown[1]), Image.Resampling.LANCZOS)
        image.paste(fitted, ((width - shown[0]) // 2, (height - shown[1]) // 2))
    else:
        block = wrap(
            frame.words, letters, width - 4 * gap, min(TEXT_LINES, max(1, height // round(letters * 1.35)))
        )
        top = (height + below - block.height) // 2
        for line in block.lines:
            canvas.text((2 * gap, top), line, font=block.font, fill=INK)
            top += block.pitch
    if captions and frame.picture:
        top = height + gap
        block = wrap(frame.words, letters, width - 2 * gap, LINES)
        for line in block.lines:
            canvas.text((gap, top), line, font=block.font, fill=INK)
            top += block.pitch
    if captions and frame.mark:
        block = wrap(frame.mark, small, width - 2 * gap, 1)
        canvas.text(
            (gap, height + below - gap - block.pitch), "".join(block.lines), font=block.font, fill=SOFT
        )
    return image


def _few_colors(image: Image.Image) -> Image.Image:
    """The frame in 256 colours of its own; a drawing that has no more keeps them exactly."""
    palette = image.quantize(256, Image.Quantize.MEDIANCUT)
    return image.quantize(256, palette=palette, dither=Image.Dither.FLOYDSTEINBERG)
