"""A run as an MP4 video: each image for its reading time, cross-fades, and captions or subtitles.

Between two images with a clip, the clip is played instead of the cross-fade. PyAV encodes the video, which
ComfyUI brings along. H.264 in 4:2:0 plays everywhere; it needs sides of even length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from PIL import Image, ImageOps

from ...core.errors import JournalError, SettingsError
from ...core.files.atomic import writing
from ...core.files.video import frames_at, pyav
from ...core.types import Trajectory
from ...core.types.clip import Clip
from ...story.clips import clips_of
from ..report.export_options import PLAIN, ExportOptions
from .animation import Box, frames_of, render
from .typesetting import PAPER

if TYPE_CHECKING:
    import numpy as np

FILE_NAME = "story.mp4"
SIDE = 1920
FPS = 24
PIXELS = "yuv420p"
MAX_FADE = 3.0
LEAST, MOST = 2.5, 20.0
"""Minimum and maximum display time of an image in seconds."""
LOOK = 1.0
"""Seconds to look at an image, in addition to reading its text."""
WORDS_PER_SECOND, SIGNS_PER_SECOND = 3.0, 5.0
"""Reading speed: words, and signs of scripts without spaces between words."""
SIGN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
HEADER = (
    b"[Script Info]\nScriptType: v4.00+\n\n[V4+ Styles]\nFormat: Name, Fontname, Fontsize\n"
    b"Style: Default,Arial,16\n\n[Events]\nFormat: Layer, Start, End, Style, Name, MarginL, MarginR, "
    b"MarginV, Effect, Text\n"
)
"""Subtitle header that the encoder needs; it is not written."""

Captions = Literal["burned in", "subtitles", "none"]


@dataclass(frozen=True)
class _Scene:
    """A rendered frame with its text and its time in frames.

    `lead` is the clip that leads to it, and `box` is where its image is.
    """

    image: Image.Image
    words: str
    length: int
    lead: Clip | None
    box: Box | None


def export(
    trajectory: Trajectory,
    folder: Path,
    captions: Captions = "burned in",
    fade: float = 0.5,
    options: ExportOptions = PLAIN,
) -> Path:
    """Write the video and return its path.

    Args:
        trajectory: A run, finished or not.
        folder: Folder to write into.
        captions: Texts below the images ("burned in"), as a subtitle track, or not at all.
        fade: Duration of a cross-fade in seconds, 0 to 3.
        options: Title, language and audience. A given title gets a scene of its own.

    Raises:
        SettingsError: An option is wrong, or PyAV is missing or too old.
        JournalError: The folder cannot be written.
    """
    if captions not in ("burned in", "subtitles", "none"):
        raise SettingsError(f"captions {captions!r} is unknown.", "Choose burned in, subtitles or none.")
    if not 0 <= fade <= MAX_FADE:
        raise SettingsError(f"fade must be 0 to {MAX_FADE:g} seconds, not {fade:g}.")
    av = _pyav(captions == "subtitles")
    frames, clips = frames_of(trajectory, options), clips_of(trajectory)
    scenes: list[_Scene] = []
    for frame, (image, box) in zip(frames, render(frames, SIDE, captions == "burned in"), strict=True):
        lead = clips.get(frame.step or 0) if box and scenes else None
        length = round(FPS * seconds_of(frame.words))
        scenes.append(_Scene(_even(image), frame.words, length, lead, box))
    path = Path(folder) / FILE_NAME
    with writing(path, JournalError, "Export") as temporary:
        _encode(av, temporary, scenes, round(FPS * fade), captions == "subtitles")
    return path


def seconds_of(words: str) -> float:
    """Return the display time of an image with this text."""
    signs = len(SIGN.findall(words))
    reading = len(SIGN.sub(" ", words).split()) / WORDS_PER_SECOND + signs / SIGNS_PER_SECOND
    return min(MOST, max(LEAST, LOOK + reading))


def _pyav(subtitles: bool) -> Any:
    av = pyav()
    from av.subtitles.subtitle import SubtitleSet

    if subtitles and not hasattr(SubtitleSet, "create"):
        raise SettingsError(
            f"PyAV {av.__version__} cannot write subtitles.", "Run: pip install -U av, or burn captions in."
        )
    return av


def _even(image: Image.Image) -> Image.Image:
    """Return the image with sides of even length."""
    size = image.width + image.width % 2, image.height + image.height % 2
    if size == image.size:
        return image
    even = Image.new("RGB", size, PAPER)
    even.paste(image)
    return even


def _encode(av: Any, path: Path, scenes: Sequence[_Scene], fade: int, subtitles: bool) -> None:
    """Write the streams, scene by scene, so that players need not read far ahead."""
    with av.open(str(path), "w", format="mp4", options={"movflags": "+faststart"}) as container:
        video = container.add_stream("libx264", rate=FPS, options={"crf": "18", "preset": "veryfast"})
        video.width, video.height = scenes[0].image.size
        video.pix_fmt = PIXELS
        titles = None
        if subtitles:
            titles = container.add_stream("mov_text")
            titles.codec_context.subtitle_header = HEADER
        begin = 0
        for scene, following in zip(scenes, (*scenes[1:], None), strict=True):
            after = begin
            for frame in _shown(av, scene, following, fade):
                frame.pts, frame.time_base = after, Fraction(1, FPS)
                container.mux(video.encode(frame))
                after += 1
            if titles is not None and (words := " ".join(scene.words.split())):
                container.mux(_subtitle(titles, words, begin, scene.length))
            begin = after
        container.mux(video.encode())


def _shown(av: Any, scene: _Scene, following: _Scene | None, fade: int) -> Iterator[Any]:
    """Yield the frames of a scene: its image, as one object, and then the fade or clip to the next scene."""
    import numpy as np

    if following is not None and following.lead is not None and following.box is not None:
        yield from [_frame(av, scene.image)] * scene.length
        left, top, *size = following.box
        for image in frames_at(following.lead, FPS):
            shown = following.image.copy()
            shown.paste(ImageOps.fit(image, (size[0], size[1])), (left, top))
            yield _frame(av, shown)
        return
    fading = min(fade, scene.length // 2) if following else 0
    yield from [_frame(av, scene.image)] * (scene.length - fading)
    if following is None:
        return
    still, after = np.asarray(scene.image), np.asarray(following.image)
    for at in range(1, fading + 1):
        share = at / (fading + 1)
        yield _frame(av, np.rint(still * (1 - share) + after * share).astype(np.uint8))


def _frame(av: Any, image: Image.Image | np.ndarray) -> Any:
    """Return an image, or its pixels `(height, width, 3)`, in the format of the encoder."""
    import numpy as np

    frame = av.VideoFrame.from_ndarray(np.asarray(image), format="rgb24")
    return frame.reformat(format=PIXELS)


def _subtitle(stream: Any, words: str, begin: int, length: int) -> Any:
    """Return the subtitle of a scene; `begin` and `length` are in frames."""
    from av.subtitles.subtitle import SubtitleSet

    start, end = (round(1000 * frames / FPS) for frames in (begin, begin + length))
    # With a word joiner after them, backslashes and braces are not read as codes.
    shown = re.sub(r"([\\{])", "\\1\u2060", words)
    line = f"0,0,Default,,0,0,0,,{shown}".encode()
    packet = stream.codec_context.encode_subtitle(SubtitleSet.create(text=line, start=0, end=end - start))
    packet.stream, packet.time_base = stream, Fraction(1, 1000)
    packet.pts = packet.dts = start
    packet.duration = end - start
    return packet
