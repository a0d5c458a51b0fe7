"""What a client of the bridge asks, whatever the protocol: messages and settings.

Decision: the evaluator's own settings are passed on, and what it leaves open is greedy. Images must come with
the question: an address would make this machine fetch whatever a client names.
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
    """A request that is none of the protocol's, or asks for what a bridge does not do."""


@dataclass(frozen=True)
class BridgeRequest:
    """Messages in order, and how to answer. `model`: as the client calls the judge; `streamed`: the answer
    comes in events."""

    messages: tuple[Message, ...]
    settings: ReplySettings
    model: str
    streamed: bool = False


def settings_of(
    temperature: float | None, top_p: float | None, max_tokens: int | None, seed: int | None
) -> ReplySettings:
    """Settings of a reply from what a client says, None where it does not."""
    return ReplySettings(
        temperature=min(2.0, max(0.0, temperature or 0.0)),
        top_p=top_p if top_p and 0 < top_p <= 1 else 1.0,
        max_tokens=min(MAX_TOKENS, max_tokens) if max_tokens and max_tokens > 0 else None,
        seed=abs(seed or 0) % 2**53,
        max_pixels=MAX_PIXELS_BOUND,
    )


def decode_image(text: str) -> Picture:
    """The image in base64, plain or in its form for addresses, padded or not. Raises BadRequest."""
    text = text.translate(URL_SAFE).strip()
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
        return Picture.from_bytes(data, "An image of the question")
    except (binascii.Error, ValueError, PictureError) as error:
        raise BadRequest(f"An image of the question cannot be read ({error}).") from error
