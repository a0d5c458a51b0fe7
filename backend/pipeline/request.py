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
        SettingsError: The text is empty, too long or invalid, or an image file does not exist.
        PictureError: A file is not an image.
    """
    return Request(text=read_text("The request", text), images=tuple(read_picture(image) for image in images))


def read_text(what: str, text: str) -> str:
    """Return the text if it can be stored and sent to an agent.

    Raises:
        SettingsError: The text is empty, too long or invalid.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SettingsError(f"{what} is not valid Unicode (character {error.start + 1}).") from error
    if not text.strip() or len(text) > MAX_TEXT:
        raise SettingsError(f"{what} must have 1 to {MAX_TEXT} characters, not {len(text)}.")
    return text


def read_picture(image: ImageInput) -> Picture:
    """Return an image, opened if it is a file.

    Raises:
        SettingsError: The file does not exist.
        PictureError: The file is not an image.
    """
    if isinstance(image, Picture):
        return image
    if isinstance(image, Image.Image):
        return Picture(image)
    # Path.exists raises OSError for a name that is too long.
    if not os.path.exists(image):
        raise SettingsError(f"Image {str(image)!r} does not exist.")
    return Picture.open(image)
