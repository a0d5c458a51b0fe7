"""Images in web pages: as data URLs, each stored once in a page even if it is shown in several places.

Photographs are stored with lossy compression, as WebP or JPEG. An image is stored losslessly if that file is
no larger, or small anyway. A page stores its images in one SVG element, and other SVG elements refer to them
by id, which all browsers support. This needs no script and no second file, so the page opens from a disk.
"""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass

from PIL import Image, features

from ...clips.pairs import clips_of
from ...pictures import Picture
from ...types import Trajectory

LOSSLESS_PIXELS = 512 * 512
LOSSLESS_BYTES = 32 * 1024
"""Maximum bytes up to which an image is stored losslessly even if lossy compression is smaller."""
QUALITY = 90
ENLARGED_SIDE = 512
MAX_ENLARGEMENT = 4.0
MAX_CLIP_BYTES = 48 * 1024 * 1024
"""Maximum size of all clips of a page; as data URLs they take a third more."""


@dataclass(frozen=True)
class ShownImage:
    """An image of a page: its data URL, and width and height in pixels."""

    source: str
    width: int
    height: int


@dataclass(frozen=True)
class StoredImage:
    """An image that a page stores as `name`, with its displayed width and height in pixels."""

    name: str
    width: int
    height: int


class PageImages:
    """The images of one page, by digest."""

    def __init__(self) -> None:
        self._wanted: dict[str, tuple[Picture, int, bool]] = {}

    def show(
        self, picture: Picture, longest: int, enlarge: bool = False, tallest: int | None = None
    ) -> StoredImage:
        """Add an image at one place of the page.

        It is stored once, in the largest size used on the page.

        Args:
            picture: Image to show.
            longest: Maximum displayed side in pixels.
            enlarge: Whether a small image is shown enlarged.
            tallest: Maximum displayed height in pixels.
        """
        _, known, larger = self._wanted.get(picture.digest, (picture, 0, False))
        self._wanted[picture.digest] = picture, max(known, longest), larger or enlarge
        width, height = _size(picture, longest, enlarge)
        if tallest is not None and height > tallest:
            width, height = round(width * tallest / height) or 1, tallest
        return StoredImage(_name(picture), width, height)

    def stored(self) -> list[tuple[str, ShownImage]]:
        """Return the names and images to store. Call it after the last `show`."""
        return [
            (_name(picture), shown_image(picture, longest, enlarge))
            for picture, longest, enlarge in self._wanted.values()
        ]


@dataclass(frozen=True)
class ShownClip:
    """A clip of a page: its data URL, and its duration as text. `image` is shown until it is played."""

    source: str
    seconds: str
    image: ShownImage


def shown_clips(trajectory: Trajectory, longest: int) -> dict[int, ShownClip]:
    """Return the clips of a story for a web page, by the number of the step they lead to.

    Args:
        trajectory: The story.
        longest: Maximum side of an image in pixels.

    Returns:
        The first clips, up to `MAX_CLIP_BYTES` together.
    """
    images = {result.step.number: result.image for result in trajectory.results}
    found, left = {}, MAX_CLIP_BYTES
    for number, clip in clips_of(trajectory).items():
        data, image = clip.movie.data, images[number]
        left -= len(data)
        if left < 0:
            break
        assert image is not None  # a step with a clip has an image
        source = f"data:video/mp4;base64,{base64.b64encode(data).decode('ascii')}"
        found[number] = ShownClip(source, f"{clip.seconds:.1f}", shown_image(image, longest, enlarge=True))
    return found


def shown_image(
    picture: Picture, longest: int, enlarge: bool = False, lossless: int = LOSSLESS_PIXELS
) -> ShownImage:
    """Encode an image for a web page.

    Args:
        picture: Image to encode.
        longest: Maximum side in pixels.
        enlarge: Whether a small image is enlarged.
        lossless: Maximum number of pixels of an image that may be stored losslessly. The run folder contains
            the exact pixels of all images.
    """
    image = scaled_image(picture, longest, enlarge)
    return ShownImage(_data_url(image, picture.size[0] * picture.size[1] <= lossless), *image.size)


def scaled_image(picture: Picture, longest: int, enlarge: bool = False) -> Image.Image:
    """Return an image with sides of at most `longest` pixels; with `enlarge`, small images are enlarged."""
    size = _size(picture, longest, enlarge)
    if size == picture.size:
        return picture.image
    # Browsers enlarge by bilinear interpolation, which blurs small drawings.
    return picture.image.resize(size, Image.Resampling.LANCZOS)


def _size(picture: Picture, longest: int, enlarge: bool) -> tuple[int, int]:
    width, height = picture.size
    scale = min(1.0, longest / max(width, height))
    if enlarge:
        scale = max(scale, min(MAX_ENLARGEMENT, ENLARGED_SIDE / max(width, height)))
    return round(width * scale) or 1, round(height * scale) or 1


def _data_url(image: Image.Image, may_be_exact: bool) -> str:
    kind = "webp" if features.check("webp") else "jpeg"
    data = _file(image, kind, quality=QUALITY)
    if may_be_exact:
        exact = _file(image, "png", compress_level=6)
        if kind == "webp":
            exact = min(exact, _file(image, "webp", lossless=True, quality=0, method=0), key=len)
        if len(exact) <= max(len(data), LOSSLESS_BYTES):
            kind, data = "png" if exact.startswith(b"\x89PNG") else "webp", exact
    return f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"


def _file(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def _name(picture: Picture) -> str:
    return f"image-{picture.digest}"
