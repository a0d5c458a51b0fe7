"""Request of the planning nodes: text and images, within limits.

Image inputs are added as they are connected, in the order of the request's `<image>` marks. A batch counts as
all of its images. Requests over the limits are rejected before an agent or a file sees them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from comfy_api.latest import io

from ...backend.errors import SettingsError
from ...backend.types import MAX_TEXT, Request
from .images import checked_batch, to_pictures

MAX_INPUTS = 16
MAX_IMAGES = 64


def images_input(tooltip: str, most: int = MAX_INPUTS) -> io.Autogrow.Input:
    """Return the growing input `images` with at most `most` sockets."""
    image = io.Image.Input("image", tooltip=tooltip)
    template = io.Autogrow.TemplatePrefix(image, prefix="image", min=0, max=most)
    return io.Autogrow.Input("images", template=template, optional=True, tooltip=tooltip)


def asked_request(text: str, images: Mapping[str, Any] | None) -> Request:
    """Return the request of this text and the connected images.

    Raises:
        SettingsError: The text is too long or not valid, or there are too many images.
    """
    if len(text) > MAX_TEXT:
        raise SettingsError(
            f"The text has {len(text)} characters; at most {MAX_TEXT} are allowed.", "Shorten it."
        )
    if not text.isprintable() and any("\ud800" <= character <= "\udfff" for character in text):
        raise SettingsError("The text contains half a character (a lone surrogate).", "Type it again.")
    batches = [checked_batch(batch) for batch in (images or {}).values() if batch is not None]
    count = sum(len(batch) for batch in batches)
    if count > MAX_IMAGES:
        raise SettingsError(
            f"The request has {count} images; at most {MAX_IMAGES} are allowed.", "Connect fewer images."
        )
    return Request(text=text, images=tuple(picture for batch in batches for picture in to_pictures(batch)))
