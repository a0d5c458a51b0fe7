"""Reads a request: checks its text and opens its images."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from ..errors import SettingsError
from ..pictures import Picture
from ..types import MAX_TEXT, Request

ImageInput = str | Path | Image.Image | Picture


def read_request(text: str, images: Sequence[ImageInput] = ()) -> Request:
    """Return the request with its images opened.

    Raises:
        SettingsError: The text is empty, too long or not valid, or an image file does not exist.
        PictureError: A file is not an image.
    """
    return Request(text=read_text("The request", text), images=tuple(read_picture(image) for image in images))


def read_text(what: str, text: str) -> str:
    """Return the text, if it can be stored and sent to an agent; raises SettingsError."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SettingsError(f"{what} is not valid text (character {error.start + 1}).") from error
    if not text.strip() or len(text) > MAX_TEXT:
        raise SettingsError(f"{what} must have 1 to {MAX_TEXT} characters, this one has {len(text)}.")
    return text


def read_picture(image: ImageInput) -> Picture:
    """Return an image, opened if it is a file; raises SettingsError if there is none, else PictureError."""
    if isinstance(image, Picture):
        return image
    if isinstance(image, Image.Image):
        return Picture(image)
    # Path.exists raises OSError for a name that is too long.
    if not os.path.exists(image):
        raise SettingsError(f"There is no image {str(image)!r}.")
    return Picture.open(image)
