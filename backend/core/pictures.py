"""Images as values: RGB pixels with a content digest, the form that all of the backend uses.

An image is identified by the digest of its pixels, not by a path or an object. The journal's cache, the rule
that nothing is generated twice and bit-exact resume all compare digests. In JSON an image is its digest
alone. The code that reads the JSON says where the pixels are (validation context `{"pictures": digest ->
Picture}`). An image stored in a file (`kept_by`) can drop its pixels and read them again, so a long story
needs no more RAM than a short one.

The RAM for pixels has one budget for the whole process (`PixelCache`). A run references every image it
generated, in its journal, its results and its listeners, but pixels stored in a file need not be in RAM too.
Code that generates or judges holds its own reference to the pixels, so evicting them here does not affect it.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import re
import threading
import weakref
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from PIL import Image
from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic_core import core_schema

from .errors import PictureError
from .files.bounded_reader import opened
from .files.image_decoding import MAX_PIXELS, decoded, decoded_mask, flattened, reading_image

if TYPE_CHECKING:
    from typing_extensions import Self


BUDGET = 64 * 1024 * 1024
"""Budget in bytes: twenty images of a megapixel, enough for all attempts of a step."""


class PixelCache:
    """Drops the pixels of the least recently used images."""

    def __init__(self, budget: int = BUDGET) -> None:
        self.budget = budget
        self._entries: OrderedDict[int, tuple[weakref.ref[Picture], int]] = OrderedDict()
        self._bytes = 0
        # Reentrant, because an image can be garbage-collected while another one is added.
        self._lock = threading.RLock()

    @property
    def bytes(self) -> int:
        """Bytes of the pixels in RAM."""
        return self._bytes

    def used(self, picture: Picture) -> None:
        """Record that the pixels of an image are in RAM and were just used."""
        key = id(picture)
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                return
            size = picture.size[0] * picture.size[1] * 3
            self._entries[key] = weakref.ref(picture, lambda _: self._drop(key)), size
            self._bytes += size
            while self._bytes > self.budget and len(self._entries) > 1:
                oldest, (reference, _) = next(iter(self._entries.items()))
                self._drop(oldest)
                if (forgotten := reference()) is not None:
                    forgotten.forget_pixels()

    def _drop(self, key: int) -> None:
        with self._lock:
            _, size = self._entries.pop(key, (None, 0))
            self._bytes -= size


MAX_BYTES = 256 * 1024 * 1024
DIGEST = re.compile(r"^[0-9a-f]{40}$")

KEPT_PIXELS = PixelCache()
"""Images with a file whose pixels are also in RAM."""


class WithDigest:
    """A value with a content digest. Equal digests mean equal values, and its JSON is the digest alone.

    A subclass sets `SOURCE`, the key of the validation context whose function returns the value of a digest,
    and `NOUN`, its name in error messages.
    """

    SOURCE: ClassVar[str]
    NOUN: ClassVar[str]
    digest: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.with_info_plain_validator_function(
            cls._validated,
            serialization=core_schema.plain_serializer_function_ser_schema(lambda value: value.digest),
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"type": "string", "pattern": DIGEST.pattern}

    @classmethod
    def _validated(cls, value: Any, info: ValidationInfo) -> Self:
        if isinstance(value, cls):
            return value
        if not isinstance(value, str) or not DIGEST.match(value):
            raise ValueError(f"expected {cls.NOUN} or the digest of {cls.NOUN}")
        source: Callable[[str], Self] | None = (info.context or {}).get(cls.SOURCE)
        if source is None:
            raise ValueError(
                f"the digest of {cls.NOUN} can only be resolved with the folder that contains it"
            )
        return source(value)


class Picture(WithDigest):
    """An immutable RGB image with a content digest (40 hex digits of BLAKE2b over size and pixels)."""

    SOURCE, NOUN = "pictures", "an image"

    def __init__(self, image: Image.Image) -> None:
        self._image: Image.Image | None = image if image.mode == "RGB" else flattened(image, "The image")
        self._size = image.size
        self._read_again: Callable[[], Image.Image] | None = None

    @classmethod
    def in_file(cls, digest: str, size: tuple[int, int], read_again: Callable[[], Image.Image]) -> Picture:
        """Return an image whose pixels are read from a file on first use.

        Args:
            digest: Digest of the pixels.
            size: Width and height in pixels.
            read_again: Reads the pixels.
        """
        picture = cls.__new__(cls)
        picture._image, picture._size, picture._read_again = None, size, read_again
        picture.__dict__["digest"] = digest
        return picture

    @property
    def image(self) -> Image.Image:
        """The pixels as a PIL image in mode RGB. Do not change it in place.

        Raises:
            InterleaveError: The pixels were dropped and cannot be read again, as raised by the reader in
                `kept_by`.
        """
        image = self._image
        if image is None:
            assert self._read_again is not None  # only an image that can be read again drops its pixels
            image = self._image = self._read_again()
        if self._read_again is not None:
            KEPT_PIXELS.used(self)
        return image

    def kept_by(self, read_again: Callable[[], Image.Image]) -> None:
        """Allow the pixels to be dropped to free RAM. `read_again` then reads them."""
        if self._read_again is None:
            self.digest  # noqa: B018 - computed while the pixels are here
            self._read_again = read_again
            KEPT_PIXELS.used(self)

    def forget_pixels(self) -> None:
        """Drop the pixels, if they can be read again."""
        if self._read_again is not None:
            self._image = None

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self._size

    @cached_property
    def is_white(self) -> bool:
        """Whether every pixel is pure white. Published files use such an image for "no image before"."""
        return all(extrema == (255, 255) for extrema in self.image.getextrema())

    @cached_property
    def digest(self) -> str:
        """Content digest: 40 hex digits over size and pixels."""
        width, height = self.size
        content = hashlib.blake2b(f"{width}x{height}:".encode(), digest_size=20)
        content.update(self.image.tobytes())
        return content.hexdigest()

    def __repr__(self) -> str:
        return f"Picture({self.size[0]}x{self.size[1]}, {self.digest[:8]})"

    def scaled_to(self, size: tuple[int, int]) -> Picture:
        """Return the image at another width and height, without keeping its aspect ratio.

        The same object is returned if it has that size.
        """
        return self if self.size == size else Picture(self.image.resize(size))

    def png(self) -> bytes:
        """Return the image as a lossless PNG file."""
        buffer = io.BytesIO()
        # Run-length encoding alone takes half the time of zlib's level 4, and photographs get as small.
        self.image.save(buffer, "PNG", compress_level=4, compress_type=zlib.Z_RLE)
        return buffer.getvalue()

    def base64_png(self) -> str:
        """Return the PNG file in base64, as used by the HTTP service and data URLs."""
        return base64.b64encode(self.png()).decode("ascii")

    def data_url(self) -> str:
        """Return the PNG file as a `data:` URL."""
        return f"data:image/png;base64,{self.base64_png()}"

    @classmethod
    def white(cls, size: tuple[int, int]) -> Picture:
        """Return a pure white image, shown to the critic as a missing "before" image.

        See `docs/reference/file-formats.md`.
        """
        return cls(Image.new("RGB", size, (255, 255, 255)))

    @classmethod
    def from_bytes(
        cls, data: bytes, where: str = "image data", most: int = MAX_PIXELS, scaled: bool = True
    ) -> Picture:
        """Decode an image file.

        Args:
            data: Content of the file.
            where: Name of the image for error messages.
            most: Maximum number of pixels.
            scaled: Whether a larger JPEG photograph may be scaled down instead of rejected.

        Raises:
            PictureError: The file is damaged or too large.
        """
        if len(data) > MAX_BYTES:
            raise PictureError(f"{where} has {len(data)} bytes; the maximum is {MAX_BYTES}.")
        with reading_image(io.BytesIO(data), where, most, scaled) as image:
            return cls(decoded(image, where))

    @classmethod
    def stored(cls, data: bytes, where: str) -> Picture:
        """Decode a file that `png` wrote and whose pixels have a digest already.

        Files of earlier versions may have a color profile, which is not applied again.

        Raises:
            PictureError: The file is damaged or too large.
        """
        with reading_image(io.BytesIO(data), where, scaled=False) as image:
            return cls(decoded(image, where, convert=False))

    @classmethod
    def open(cls, path: str | Path) -> Picture:
        """Read an image file.

        Raises:
            PictureError: The file is missing, damaged or too large; the message names the path.
        """
        with _reading_file(path) as image:
            return cls(decoded(image, f"Image {str(path)!r}"))

    @classmethod
    def from_base64(cls, text: str, where: str = "base64 image", most: int = MAX_PIXELS) -> Picture:
        """Decode the base64 image of a server's answer. It is never scaled down.

        Args:
            text: Base64, with or without a `data:` prefix.
            where: Name of the image for error messages.
            most: Maximum number of pixels.

        Raises:
            PictureError: The text is not base64, or the image is damaged or too large.
        """
        if text.startswith("data:"):
            text = text.partition(",")[2]
        try:
            data = base64.b64decode(text, validate=True)
        except ValueError as error:
            raise PictureError(f"{where} is not valid base64 ({error}).") from error
        return cls.from_bytes(data, where, most, scaled=False)


def size_of(path: str | Path) -> tuple[int, int]:
    """Return width and height of an image file, read from its header alone.

    Raises:
        PictureError: As for `Picture.open`.
    """
    with _reading_file(path) as image:
        return image.size


def mode_of(path: str | Path) -> str:
    """Return Pillow's mode of an image file, which is decoded completely.

    Raises:
        PictureError: As for `Picture.open`.
    """
    with _reading_file(path) as image:
        image.load()
        return image.mode


def open_mask(path: str | Path) -> Picture:
    """Read a mask from an image file. White areas may change (see `decoded_mask`).

    Raises:
        PictureError: As for `Picture.open`.
    """
    with _reading_file(path) as image:
        return Picture(decoded_mask(image, f"Image {str(path)!r}"))


@contextmanager
def _reading_file(path: str | Path) -> Iterator[Image.Image]:
    where = f"Image {str(path)!r}"
    # Pillow reads lazily: of a large file that is not an image, only a few bytes are read.
    with opened(path, PictureError, "Image") as file:
        if os.fstat(file.fileno()).st_size > MAX_BYTES:
            raise PictureError(f"{where} is larger than the maximum of {MAX_BYTES} bytes.")
        with reading_image(file, where) as image:
            yield image
