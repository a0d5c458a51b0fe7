"""Images as values: RGB pixels with a content digest, the one form in which images travel through the
backend.

Decision: identity is the digest of the pixels, not a path or an object. The journal's cache, "never draw the
same thing twice" and bit-for-bit resume all follow from comparing digests. In JSON a picture is its digest
alone; who reads the JSON says where the pixels are (validation context `{"pictures": digest -> Picture}`). A
picture that lies in a file (`kept_by`) may forget its pixels and read them again, so a long story takes no
more memory than a short one.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from PIL import Image
from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic_core import core_schema

from .errors import PictureError
from .files.bounded_reader import opened
from .files.image_decoding import MAX_PIXELS, decoded, decoded_mask, flattened, reading_image
from .files.pixel_cache import PixelCache

MAX_BYTES = 256 * 1024 * 1024
DIGEST = re.compile(r"^[0-9a-f]{40}$")
PictureSource = Callable[[str], "Picture"]

KEPT_PIXELS = PixelCache()
"""Which of the pictures that lie in files have their pixels in memory too."""


class Picture:
    """An immutable RGB image with a content digest (40 hex digits of BLAKE2b over size and pixels)."""

    def __init__(self, image: Image.Image) -> None:
        self._image: Image.Image | None = image if image.mode == "RGB" else flattened(image, "The image")
        self._size = image.size
        self._read_again: Callable[[], Image.Image] | None = None

    @classmethod
    def in_file(cls, digest: str, size: tuple[int, int], read_again: Callable[[], Image.Image]) -> Picture:
        """A picture whose pixels lie in a file and are read when they are first wanted."""
        picture = cls.__new__(cls)
        picture._image, picture._size, picture._read_again = None, size, read_again
        picture.__dict__["digest"] = digest
        return picture

    @property
    def image(self) -> Image.Image:
        """The pixels as a PIL image in mode RGB; do not change it in place. Raises what the reader of
        `kept_by` raises."""
        image = self._image
        if image is None:
            assert self._read_again is not None  # only a picture that can be read again forgets its pixels
            image = self._image = self._read_again()
        if self._read_again is not None:
            KEPT_PIXELS.used(self)
        return image

    def kept_by(self, read_again: Callable[[], Image.Image]) -> None:
        """From now on the pixels may be forgotten when memory is wanted, and are then had from
        `read_again`."""
        if self._read_again is None:
            self.digest  # noqa: B018 - computed while the pixels are here
            self._read_again = read_again
            KEPT_PIXELS.used(self)

    def forget_pixels(self) -> None:
        """Free the pixels, if they can be read again."""
        if self._read_again is not None:
            self._image = None

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self._size

    @cached_property
    def is_white(self) -> bool:
        """Whether every pixel is pure white: the page that stands for "no image before" in published
        files."""
        return all(extrema == (255, 255) for extrema in self.image.getextrema())

    @cached_property
    def digest(self) -> str:
        width, height = self.size
        content = hashlib.blake2b(f"{width}x{height}:".encode(), digest_size=20)
        content.update(self.image.tobytes())
        return content.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Picture) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Picture({self.size[0]}x{self.size[1]}, {self.digest[:8]})"

    def scaled_to(self, size: tuple[int, int]) -> Picture:
        """This image at another width and height, its proportions changed where they differ; itself if it has
        that size."""
        return self if self.size == size else Picture(self.image.resize(size))

    def png(self) -> bytes:
        """The image as a lossless PNG file."""
        buffer = io.BytesIO()
        # Run lengths alone, as zlib offers for PNG: half the time of its level 4, and no larger on
        # photographs.
        self.image.save(buffer, "PNG", compress_level=4, compress_type=zlib.Z_RLE)
        return buffer.getvalue()

    def base64_png(self) -> str:
        """The PNG file in base64, as the HTTP service and data URLs carry it."""
        return base64.b64encode(self.png()).decode("ascii")

    def data_url(self) -> str:
        """The PNG as a `data:` URL."""
        return f"data:image/png;base64,{self.base64_png()}"

    @classmethod
    def white(cls, size: tuple[int, int]) -> Picture:
        """A pure white image: what the critic is shown as "before" when there is none (FORMATS: roles)."""
        return cls(Image.new("RGB", size, (255, 255, 255)))

    @classmethod
    def from_bytes(
        cls, data: bytes, where: str = "image data", most: int = MAX_PIXELS, scaled: bool = True
    ) -> Picture:
        """Decode an image file; raises PictureError if it is damaged or has more pixels than `most`.

        A large JPEG photograph is made smaller instead if it may be `scaled`.
        """
        if len(data) > MAX_BYTES:
            raise PictureError(f"{where} is {len(data)} bytes; at most {MAX_BYTES} are read.")
        with reading_image(io.BytesIO(data), where, most, scaled) as image:
            return cls(decoded(image, where))

    @classmethod
    def stored(cls, data: bytes, where: str) -> Picture:
        """Decode a file whose pixels have a digest already, as `png` wrote them; raises PictureError.

        Files of earlier versions may have a color profile, which is not applied again.
        """
        with reading_image(io.BytesIO(data), where, scaled=False) as image:
            return cls(decoded(image, where, convert=False))

    @classmethod
    def open(cls, path: str | Path) -> Picture:
        """Read an image file; raises PictureError naming the path."""
        with _reading_file(path) as image:
            return cls(decoded(image, f"Image {str(path)!r}"))

    @classmethod
    def from_base64(cls, text: str, where: str = "base64 image", most: int = MAX_PIXELS) -> Picture:
        """Decode base64 (with or without a `data:` prefix) of at most so many pixels; raises PictureError.

        It is a server's answer, which is taken as it is or not at all.
        """
        if text.startswith("data:"):
            text = text.partition(",")[2]
        try:
            data = base64.b64decode(text, validate=True)
        except ValueError as error:
            raise PictureError(f"{where} is not base64 ({error}).") from error
        return cls.from_bytes(data, where, most, scaled=False)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.with_info_plain_validator_function(
            _validate,
            serialization=core_schema.plain_serializer_function_ser_schema(lambda p: p.digest),
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"type": "string", "pattern": DIGEST.pattern}


def size_of(path: str | Path) -> tuple[int, int]:
    """Width and height of an image file, from its header alone; raises PictureError as `Picture.open`
    does."""
    with _reading_file(path) as image:
        return image.size


def mode_of(path: str | Path) -> str:
    """Pillow's mode of an image file, decoded as a whole; raises PictureError as `Picture.open` does."""
    with _reading_file(path) as image:
        image.load()
        return image.mode


def open_mask(path: str | Path) -> Picture:
    """A mask from an image file, white where something may change (see `decoded_mask`). Raises PictureError
    as `Picture.open` does."""
    with _reading_file(path) as image:
        return Picture(decoded_mask(image, f"Image {str(path)!r}"))


@contextmanager
def _reading_file(path: str | Path) -> Iterator[Image.Image]:
    where = f"Image {str(path)!r}"
    # Pillow reads on from the file: of one that is no image, however large, a few bytes are read.
    with opened(path, PictureError, "Image") as file:
        if os.fstat(file.fileno()).st_size > MAX_BYTES:
            raise PictureError(f"{where} is larger than {MAX_BYTES} bytes, the most that is read.")
        with reading_image(file, where) as image:
            yield image


def _validate(value: Any, info: ValidationInfo) -> Picture:
    if isinstance(value, Picture):
        return value
    if isinstance(value, str) and DIGEST.match(value):
        source: PictureSource | None = (info.context or {}).get("pictures")
        if source is not None:
            return source(value)
        raise ValueError("a picture's digest can only be read with a folder of pictures beside it")
    raise ValueError("not a picture nor the digest of one")
