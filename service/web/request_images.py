"""Decodes the images of a request.

Their number of pixels is known from their headers. Memory for it is reserved before each is decoded.
"""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass

from ...backend.errors import PictureError
from ...backend.files.image_decoding import decoded_mask, reading_image
from ...backend.pictures import Picture
from ..front import RequestMemory
from .bodies import (
    MAX_IMAGES,
    BadBody,
    BadImage,
    EditBody,
    FillBody,
)

PIXEL_BYTES, DECODING_BYTES = 3, 8
"""Bytes per pixel of an image, and while it is decoded: with transparency and 16 bits per channel, then RGB."""
MAX_SOURCE_PIXELS = 50_000_000
MAX_ALL_PIXELS = 100_000_000
"""Maximum number of pixels of all images of a request."""


@dataclass(frozen=True)
class RequestImages:
    """The images of a request.

    Attributes:
        sources: Source images in the order in which they were sent.
        mask: The mask.
        echo: The first source image as it was sent, in base64.
    """

    sources: tuple[Picture, ...] = ()
    mask: Picture | None = None
    echo: str | None = None


def images_in(body: EditBody | FillBody, echo: bool, share: RequestMemory) -> RequestImages:
    """Decode the images of a JSON body.

    Args:
        body: The body.
        echo: Whether to keep the source image as it was sent.
        share: Memory of the request.

    Raises:
        BadImage: An image is invalid or missing.
        Busy: Not enough memory is left.
    """
    if not body.image:
        if body.mask_image:
            raise BadImage("A mask requires an image.")
        return RequestImages()
    sources = [file_in(body.image, "image")]
    masks = [file_in(body.mask_image, "mask_image")] if body.mask_image else []
    decoded = images_of(sources, masks, share)
    return RequestImages(decoded.sources, decoded.mask, body.image if echo else None)


def images_of(sources: list[bytes], masks: list[bytes], share: RequestMemory) -> RequestImages:
    """Decode image files.

    Args:
        sources: Files of source images.
        masks: Files of masks.
        share: Memory of the request.

    Raises:
        BadImage: An image is invalid or missing.
        BadBody: There are too many images.
        Busy: Not enough memory is left.
    """
    if len(sources) > MAX_IMAGES or len(masks) > 1:
        many = {
            "type": "value_error",
            "loc": ["body", "image"],
            "msg": f"at most {MAX_IMAGES} images and one mask",
        }
        raise BadBody([many])
    if not sources:
        raise BadImage("The image is missing.", "Send it as a file of the form.")
    names = [f"image {number}" if len(sources) > 1 else "image" for number in range(1, len(sources) + 1)]
    names += ["mask"] * len(masks)
    pixels = [pixels_in(data, name) for data, name in zip([*sources, *masks], names, strict=True)]
    if sum(pixels) > MAX_ALL_PIXELS:
        raise BadImage(
            f"The images of the request have {sum(pixels)} pixels; the maximum is {MAX_ALL_PIXELS}.",
            "Scale them down first.",
        )
    decoded: list[Picture] = []
    for data, name, size in zip([*sources, *masks], names, pixels, strict=True):
        share.take(size * DECODING_BYTES)
        decoded.append(decode_mask(data, name) if name == "mask" else decode_image(data, name))
        share.take(size * (PIXEL_BYTES - DECODING_BYTES))
    return RequestImages(tuple(decoded[: len(sources)]), decoded[-1] if masks else None)


def pixels_in(data: bytes, where: str) -> int:
    """Return width times height from a file's header, without decoding it.

    Raises:
        BadImage: The file is not an image, or is too large.
    """
    try:
        with reading_image(io.BytesIO(data), where, MAX_SOURCE_PIXELS) as image:
            return image.size[0] * image.size[1]
    except PictureError as error:
        raise BadImage(error.message, error.hint) from error


def decode_image(data: bytes, where: str) -> Picture:
    """Decode an image file.

    Raises:
        BadImage: The file is not an image, or is too large.
    """
    try:
        return Picture.from_bytes(data, where, MAX_SOURCE_PIXELS)
    except PictureError as error:
        raise BadImage(error.message, error.hint) from error


def decode_mask(data: bytes, where: str) -> Picture:
    """Decode a mask file: white where it is transparent, or else its brightness.

    Raises:
        BadImage: The file is not an image, or is too large.
    """
    try:
        with reading_image(io.BytesIO(data), where, MAX_SOURCE_PIXELS) as image:
            return Picture(decoded_mask(image, where))
    except PictureError as error:
        raise BadImage(error.message, error.hint) from error


def file_in(text: str, where: str) -> bytes:
    """Decode base64.

    Raises:
        BadImage: The text is not base64.
    """
    if text.startswith("data:"):
        text = text.partition(",")[2]
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise BadImage(f"{where} is not valid base64 ({error}).") from error
