"""Images in web pages: as data URLs, each stored once in a page that shows it in several places.

A photograph is stored with lossy compression, as WebP or JPEG. An image is stored losslessly if its file is
then no larger, or small anyway. A page stores its images in one SVG element, and other SVG elements show them
by their id, as all browsers can. That needs no script and no second file, so the page opens from a disk.
"""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass

from PIL import Image, features

from ...pictures import Picture

LOSSLESS_PIXELS = 512 * 512
LOSSLESS_BYTES = 32 * 1024
"""Bytes up to which an image is stored without loss, however small it would be with loss."""
QUALITY = 90
ENLARGED_SIDE = 512
MAX_ENLARGEMENT = 4.0


@dataclass(frozen=True)
class ShownImage:
    """An image of a page: its data URL, and width and height in pixels."""

    source: str
    width: int
    height: int


@dataclass(frozen=True)
class StoredImage:
    """An image that a page stores under `name`, and its displayed width and height in pixels."""

    name: str
    width: int
    height: int


class PageImages:
    """The images of one page, by their digests."""

    def __init__(self) -> None:
        self._wanted: dict[str, tuple[Picture, int, bool]] = {}

    def show(
        self, picture: Picture, longest: int, enlarge: bool = False, tallest: int | None = None
    ) -> StoredImage:
        """Store a picture for one place in the page, which shows it with at most `longest` pixels a side.

        It is stored once, in the largest size that a place asks for. `enlarge` shows a small picture larger,
        and `tallest` limits the displayed height.
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


def shown_image(
    picture: Picture, longest: int, enlarge: bool = False, lossless: int = LOSSLESS_PIXELS
) -> ShownImage:
    """Encode a picture with at most `longest` pixels a side; `enlarge` makes a small one larger.

    Only pictures of up to `lossless` pixels may be stored losslessly; the run's folder has the exact pixels.
    """
    image, size = picture.image, _size(picture, longest, enlarge)
    if size != picture.size:
        # Browsers enlarge by bilinear interpolation, which blurs small drawings.
        image = image.resize(size, Image.Resampling.LANCZOS)
    return ShownImage(_data_url(image, picture.size[0] * picture.size[1] <= lossless), *size)


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
