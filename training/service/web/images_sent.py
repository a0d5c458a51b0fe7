"""The images of a request, decoded."""

from __future__ import annotations

from dataclasses import dataclass

from ....backend.pictures import Picture
from .bodies import (
    MAX_IMAGES,
    BadBody,
    BadImage,
    EditBody,
    FillBody,
    mask_in,
    mask_of,
    picture_in,
    picture_of,
)

CHANNELS = 3


@dataclass(frozen=True)
class Images:
    """Sources in the order in which they were sent, and a mask; `echo` is the first source as it came, in
    base64."""

    sources: tuple[Picture, ...] = ()
    mask: Picture | None = None
    echo: str | None = None

    @property
    def bytes(self) -> int:
        """What the pixels take in memory."""
        pictures = (*self.sources, *((self.mask,) if self.mask else ()))
        return sum(width * height * CHANNELS for width, height in (one.size for one in pictures))


def images_in(body: EditBody | FillBody, echo: bool) -> Images:
    """Those of a JSON body; raises BadImage."""
    if not body.image:
        if body.mask_image:
            raise BadImage("A mask needs an image.")
        return Images()
    source = picture_in(body.image, "image")
    mask = mask_in(body.mask_image, "mask_image") if body.mask_image else None
    return Images((source,), mask, body.image if echo else None)


def images_of(sources: list[bytes], masks: list[bytes]) -> Images:
    """Those of a form; raises BadImage, BadBody."""
    if len(sources) > MAX_IMAGES or len(masks) > 1:
        many = {
            "type": "value_error",
            "loc": ["body", "image"],
            "msg": f"at most {MAX_IMAGES} images and one mask",
        }
        raise BadBody([many])
    if not sources:
        raise BadImage("There is no image.", "Send it as a file of the form.")
    decoded = tuple(picture_of(data, f"image {number}") for number, data in enumerate(sources, 1))
    return Images(decoded, mask_of(masks[0], "mask") if masks else None)
