"""A question from a client of the bridge, independent of the API: messages and settings.

The evaluator's settings are used; the default is greedy decoding. Images must be inline, because a URL would
let a client make this machine fetch any address.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

from ....backend.chat.image_limits import MAX_PIXELS_BOUND
from ....backend.chat.protocol import Message, ReplySettings
from ....backend.errors import InterleaveError, PictureError
from ....backend.pictures import Picture

URL_SAFE = str.maketrans("-_", "+/")
MAX_TOKENS = 65536


class BadRequest(InterleaveError):
    """A request that does not follow the API, or uses a feature that the bridge does not support."""


@dataclass(frozen=True)
class BridgeRequest:
    """A question and how to answer it.

    Attributes:
        messages: Messages in order.
        settings: Sampling settings.
        model: Name that the client uses for the judge.
        streamed: Whether to answer as an event stream.
    """

    messages: tuple[Message, ...]
    settings: ReplySettings
    model: str
    streamed: bool = False


def settings_of(
    temperature: float | None, top_p: float | None, max_tokens: int | None, seed: int | None
) -> ReplySettings:
    """Return sampling settings from the values of a request; `None` selects the default."""
    return ReplySettings(
        temperature=min(2.0, max(0.0, temperature or 0.0)),
        top_p=top_p if top_p and 0 < top_p <= 1 else 1.0,
        max_tokens=min(MAX_TOKENS, max_tokens) if max_tokens and max_tokens > 0 else None,
        seed=abs(seed or 0) % 2**53,
        max_pixels=MAX_PIXELS_BOUND,
    )


def decode_image(text: str) -> Picture:
    """Decode an image in base64 (standard or URL-safe alphabet, with or without padding).

    Raises:
        BadRequest: If it cannot be decoded.
    """
    text = text.translate(URL_SAFE).strip()
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
        return Picture.from_bytes(data, "An image of the question")
    except (binascii.Error, ValueError, PictureError) as error:
        raise BadRequest(f"Cannot read an image of the question: {error}.") from error
