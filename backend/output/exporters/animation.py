"""A run as an animated image (GIF, or WebP in full color), and the frames that MP4 shares.

There is one frame per step, shown long enough to read. All frames have the same size with the image in the
middle, because an animation cannot change its size. With every attempt shown, attempts that were not kept are
shorter and labeled with their outcome.

Each GIF frame has its own palette of 256 colors, so a drawing with at most 256 colors is exact. WebP has more
pixels and smaller files. It is lossy, at a quality at which drawings show no ringing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from PIL import Image, ImageDraw

from ...core.errors import SettingsError
from ...core.pictures import Picture
from ...core.types import StepResult, Trajectory
from ...story.outcomes import kept_word, outcome, story_steps
from ..report.export_options import PLAIN, ExportOptions, Words, given_panels, story_panels
from .export_files import encoded, exif_of, gif_comment, write_whole
from .typesetting import INK, PAPER, SOFT, Block, drawable, wrap

MIN_SECONDS, MAX_SECONDS = 0.1, 60.0
MIN_SIDE = 256
Box = tuple[int, int, int, int]
"""Left, top, width and height in pixels."""
CAPTION_LINES = 3
TEXT_LINES = 16
COLORS = 256
WEBP_QUALITY = 90


@dataclass(frozen=True)
class Frame:
    """An image, or a text instead of it, with a caption, an outcome, and its share of a step's duration.

    `step` is the number of its step; `None` for a title and the note on missing steps.
    """

    picture: Picture | None
    words: str
    mark: str = ""
    share: float = 1.0
    step: int | None = None


def frames_of(trajectory: Trajectory, options: ExportOptions = PLAIN, attempts: bool = False) -> list[Frame]:
    """Return what the frames of a film show, in order.

    Args:
        trajectory: A run, finished or not.
        options: Title, language and audience. A given title gets a frame of its own.
        attempts: Whether to show every attempt, or only the chosen ones.
    """
    if options.audience:
        panels = story_panels(trajectory, options)
        frames = [Frame(panel.picture, panel.text, step=panel.number) for panel in panels]
    else:
        frames = _run_frames(trajectory, attempts, drawable(options.words))
    title = options.title.strip()
    return [Frame(None, title), *frames] if title else frames


def render(frames: list[Frame], side: int, captions: bool) -> list[tuple[Image.Image, Box | None]]:
    """Render frames as RGB images of one size.

    Args:
        frames: What they show.
        side: Maximum side of an image in pixels.
        captions: Whether to write the texts below the images.

    Returns:
        Each frame, and the place of its image; `None` for a frame without one.
    """
    layout = _Layout(frames, side, captions)
    return [layout.draw(frame) for frame in frames]


def _run_frames(trajectory: Trajectory, attempts: bool, words: Words) -> list[Frame]:
    def mark(result: StepResult, index: int) -> str:
        name = words.say("attempt {number}", number=index + 1)
        what = words.heard(outcome(result.attempts[index], trajectory.settings).label)
        kept = words.say(kept_word(result, index))
        return f"{name}: {what}, {kept}" if kept else f"{name}: {what}"

    frames = [Frame(panel.picture, "") for panel in given_panels(trajectory)]
    steps = story_steps(trajectory)
    for step, result in ((shown.step, shown.result) for shown in steps):
        if result is None:
            continue
        story = step.auxiliary_text or step.instruction or step.name
        for index, attempt in enumerate(result.attempts if attempts else ()):
            if index != result.chosen and attempt.image:
                frames.append(Frame(attempt.image, story, mark(result, index), 0.5, step.number))
        end = mark(result, result.chosen) if attempts and result.chosen is not None else ""
        if result.image or story:
            frames.append(Frame(result.image, story, end, step=step.number))
    missing = sum(shown.result is None for shown in steps)
    if missing or not frames:
        text = words.say("Not reached: {missing} of {steps} steps.", missing=missing, steps=len(steps))
        frames.append(Frame(None, text))
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
        words = [sum(block.height for block in self._caption(frame)) for frame in frames if frame.picture]
        self.below = 2 * self.gap + max(words, default=0) if captions else 0

    def draw(self, frame: Frame) -> tuple[Image.Image, Box | None]:
        """Render a frame as an RGB image of `width` by `height` + `below` pixels."""
        image = Image.new("RGB", (self.width, self.height + self.below), PAPER)
        canvas = ImageDraw.Draw(image)
        block, mark = self._caption(frame)
        if frame.picture is None:
            lines = max(1, image.height // round(self.letters * 1.35) - 2)
            block = wrap(frame.words, self.letters, self.width - 4 * self.gap, min(TEXT_LINES, lines))
            left, top = 2 * self.gap, (image.height - block.height - mark.height) // 2
            mark.draw(canvas, left, block.draw(canvas, left, top, INK), SOFT)
            return image, None
        width, height = (max(1, round(length * self._scale)) for length in frame.picture.size)
        left, top = (self.width - width) // 2, (self.height - height) // 2
        image.paste(frame.picture.image.resize((width, height), Image.Resampling.LANCZOS), (left, top))
        if self.captions:
            mark.draw(canvas, self.gap, block.draw(canvas, self.gap, self.height + self.gap, INK), SOFT)
        return image, (left, top, width, height)

    def _caption(self, frame: Frame) -> tuple[Block, Block]:
        width = self.width - 2 * self.gap
        return wrap(frame.words, self.letters, width, CAPTION_LINES), wrap(frame.mark, self.small, width, 1)


@dataclass(frozen=True)
class AnimationExporter:
    """Writes an animated image.

    Attributes:
        kind: Its format.
        side: Maximum side of an image in pixels.
    """

    kind: Literal["GIF", "WEBP"]
    side: int

    def __call__(
        self,
        trajectory: Trajectory,
        folder: Path,
        seconds: float = 2.0,
        attempts: bool = False,
        options: ExportOptions = PLAIN,
        metadata: Mapping[str, str] | None = None,
    ) -> Path:
        """Write the animation, which repeats endlessly, and return its path.

        Args:
            trajectory: A run, finished or not.
            folder: Folder to write into.
            seconds: Duration of a step, 0.1 to 60. An attempt that was not kept has half of it.
            attempts: Whether to show every attempt.
            options: Title, language and audience. A given title gets a frame of its own.
            metadata: Texts to embed in the file by name, such as the workflow.

        Raises:
            SettingsError: A value is out of range.
            JournalError: The folder cannot be written.
        """
        if not MIN_SECONDS <= seconds <= MAX_SECONDS:
            raise SettingsError(f"seconds must be {MIN_SECONDS:g} to {MAX_SECONDS:g}, not {seconds:g}.")
        frames = frames_of(trajectory, options, attempts)
        images = [image for image, _ in render(frames, self.side, captions=True)]
        more: dict[str, Any] = {"duration": [round(1000 * seconds * frame.share) for frame in frames]}
        if self.kind == "GIF":
            images = [_few_colors(image) for image in images]
            more |= {"disposal": 1, **gif_comment(metadata or {})}
        else:
            more |= {"quality": WEBP_QUALITY, "method": 4, **exif_of(metadata or {})}
        data = encoded(images[0], self.kind, save_all=True, append_images=images[1:], loop=0, **more)
        return write_whole(Path(folder) / f"story.{self.kind.lower()}", data)


def _few_colors(image: Image.Image) -> Image.Image:
    palette = image.quantize(COLORS, Image.Quantize.MEDIANCUT)
    return image.quantize(COLORS, palette=palette, dither=Image.Dither.FLOYDSTEINBERG)


export_gif = AnimationExporter("GIF", 640)
export_webp = AnimationExporter("WEBP", 1024)
