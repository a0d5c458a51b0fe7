"""A request as the planning nodes take it: text and any number of images, within bounds.

Decision: image inputs grow as they are connected, in the order in which the request speaks of them; a batch
counts as all of its images. What is too long or too much is refused in one line before an agent or a file
sees it.
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


def images_input(tooltip: str) -> io.Autogrow.Input:
    """The input `images`: none at first, another one for each that is connected."""
    image = io.Image.Input("image", tooltip=tooltip)
    template = io.Autogrow.TemplatePrefix(image, prefix="image", min=0, max=MAX_INPUTS)
    return io.Autogrow.Input("images", template=template, optional=True, tooltip=tooltip)


def asked_request(text: str, images: Mapping[str, Any] | None) -> Request:
    """The request of this text and the connected images; raises SettingsError."""
    if len(text) > MAX_TEXT:
        raise SettingsError(f"The request has {len(text)} characters; at most {MAX_TEXT} are read.")
    if not text.isprintable() and any("\ud800" <= character <= "\udfff" for character in text):
        raise SettingsError("The request holds half a character.", "Type it anew.")
    batches = [checked_batch(batch) for batch in (images or {}).values() if batch is not None]
    count = sum(len(batch) for batch in batches)
    if count > MAX_IMAGES:
        raise SettingsError(
            f"The request has {count} images; at most {MAX_IMAGES} are looked at.", "Connect fewer."
        )
    return Request(text=text, images=tuple(picture for batch in batches for picture in to_pictures(batch)))
