"""Encodes the frames of a clip as an MP4 file, and decodes them again.

PyAV, which ComfyUI installs, does both. H.264 in 4:2:0 plays in every browser; it needs sides of even length.
A movie may come from a foreign story. So decoding stops if its size or length differs from the clip's record.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from PIL import Image

from ..errors import GeneratorError, JournalError, SettingsError
from ..types.clip import MAX_BYTES, MAX_FPS, MAX_FRAMES, MAX_SIDE, MIN_FPS, Clip, ClipPair, Footage, Movie

CODEC = "libx264"
QUALITY = {"crf": "16", "preset": "medium"}
PIXELS = "yuv420p"


def pyav() -> Any:
    """Return the module of PyAV.

    Raises:
        SettingsError: It is not installed.
    """
    try:
        import av
    except ImportError as error:
        raise SettingsError("A video needs PyAV, which is not installed.", "Run: pip install av") from error
    return av


def clip_of(pair: ClipPair, footage: Footage, maker: str = "", took: float = 0.0) -> Clip:
    """Return frames as a finished clip.

    Args:
        pair: What the clip shows.
        footage: The frames. An odd last row or column is cut off.
        maker: Identity of what made them, with its seed.
        took: Seconds that it took.

    Raises:
        GeneratorError: The number, sizes or rate of the frames are out of range, the file would be too large,
            or the encoder failed (full disk).
        SettingsError: PyAV is missing.
    """
    if not 1 <= len(footage.frames) <= MAX_FRAMES:
        raise GeneratorError(
            f"The clip of step {pair.step} has {len(footage.frames)} frames; allowed are 1 to {MAX_FRAMES}.",
            "Make a shorter clip.",
        )
    if not MIN_FPS <= footage.fps <= MAX_FPS:
        raise GeneratorError(
            f"The clip of step {pair.step} has {footage.fps:g} frames per second; "
            f"allowed are {MIN_FPS:g} to {MAX_FPS:g}."
        )
    size = _even(footage.frames[0].size, pair)
    data = _encoded((frame.image for frame in footage.frames), size, footage.fps, pair)
    return Clip(
        first=pair.first.digest,
        last=pair.last.digest,
        prompt=pair.prompt,
        movie=Movie(data),
        fps=footage.fps,
        frames=len(footage.frames),
        size=size,
        maker=maker,
        took=took,
    )


def frames_of(clip: Clip) -> Iterator[Image.Image]:
    """Yield the frames of a clip as RGB images.

    Raises:
        JournalError: The movie is damaged, or its codec, size or length differs from the clip's record.
        SettingsError: PyAV is missing.
    """
    av = pyav()
    count = 0
    try:
        with av.open(io.BytesIO(clip.movie.data), format="mp4") as container:
            streams = container.streams.video
            # Before anything is decoded: a frame of another size might need gigabytes.
            if len(streams) != 1 or streams[0].codec_context.name != "h264" or _size(streams[0]) != clip.size:
                raise _mismatch(clip)
            for frame in container.decode(streams[0]):
                count += 1
                if count > clip.frames or _size(frame) != clip.size:
                    raise _mismatch(clip)
                yield frame.to_image()
    except (av.FFmpegError, ValueError) as error:
        raise JournalError(f"Movie {clip.movie.digest!r} cannot be decoded ({error}).", REMAKE) from error
    if count != clip.frames:
        raise _mismatch(clip)


def frames_at(clip: Clip, rate: int) -> Iterator[Image.Image]:
    """Yield the frames of a clip at another rate in frames per second. Frames are repeated or left out.

    Raises:
        JournalError: As in `frames_of`.
        SettingsError: PyAV is missing.
    """
    shown = 0
    for number, frame in enumerate(frames_of(clip), 1):
        until = round(number * rate / clip.fps)
        for _ in range(until - shown):
            yield frame
        shown = until


REMAKE = "Delete its file in the run folder, and make the clip again."


def _size(shown: Any) -> tuple[int, int]:
    return shown.width, shown.height


def _mismatch(clip: Clip) -> JournalError:
    width, height = clip.size
    return JournalError(
        f"Movie {clip.movie.digest!r} is not an H.264 video of {clip.frames} frames "
        f"with {width}x{height} pixels.",
        REMAKE,
    )


def _even(size: Sequence[int], pair: ClipPair) -> tuple[int, int]:
    """Return a size with even sides."""
    width, height = (side - side % 2 for side in size)
    if not (width and height) or max(width, height) > MAX_SIDE:
        raise GeneratorError(
            f"The clip of step {pair.step} has {size[0]}x{size[1]} pixels; "
            f"allowed are 2 to {MAX_SIDE} a side."
        )
    return width, height


def _encoded(frames: Iterator[Image.Image], size: tuple[int, int], fps: float, pair: ClipPair) -> bytes:
    av = pyav()
    try:
        # A file, because FFmpeg moves the index to the front (for the browser) only in one.
        with tempfile.TemporaryDirectory(prefix="interleave-clip-") as folder:
            path = Path(folder) / "clip.mp4"
            _write(path, frames, size, Fraction(fps).limit_denominator(1001), pair)
            if path.stat().st_size > MAX_BYTES:
                raise GeneratorError(
                    f"The clip of step {pair.step} would be larger than {MAX_BYTES // 2**20} MiB.",
                    "Make a shorter or smaller clip.",
                )
            return path.read_bytes()
    except (av.FFmpegError, OSError, ValueError) as error:
        raise GeneratorError(
            f"The clip of step {pair.step} cannot be encoded ({error}).",
            f"Free disk space for temporary files, and use a PyAV that has the encoder {CODEC}.",
        ) from error


def _write(
    path: Path, frames: Iterator[Image.Image], size: tuple[int, int], rate: Fraction, pair: ClipPair
) -> None:
    av = pyav()
    with av.open(str(path), "w", format="mp4", options={"movflags": "+faststart"}) as container:
        stream = container.add_stream(CODEC, rate=rate, options=QUALITY)
        stream.width, stream.height = size
        stream.pix_fmt = PIXELS
        for number, image in enumerate(frames):
            if image.width // 2 * 2 != size[0] or image.height // 2 * 2 != size[1]:
                raise GeneratorError(
                    f"Frame {number + 1} of the clip of step {pair.step} has another size than the first."
                )
            frame = av.VideoFrame.from_image(image.crop((0, 0, *size))).reformat(format=PIXELS)
            frame.pts, frame.time_base = number, 1 / rate
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
