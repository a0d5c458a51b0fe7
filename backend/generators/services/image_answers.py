"""What a server of the OpenAI Images API answers, and the image in it.

Decision: an image is taken from the answer alone. An address in it may be anybody's, so it is never followed;
one that is the image itself (`data:image/...`) is read.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...errors import GeneratorError, PictureError
from ...pictures import Picture
from ...remote.server import RemoteServer
from .client import check_values


class ImageAnswer(BaseModel):
    """One image of an answer; further keys are ignored."""

    model_config = ConfigDict(extra="ignore")

    b64_json: str | None = None
    url: str | None = None


class ImagesAnswer(BaseModel):
    """What both routes answer; further keys are ignored."""

    model_config = ConfigDict(extra="ignore")

    data: list[ImageAnswer] = Field(min_length=1)
    ignored: Any = None


def picture_in(data: bytes, server: RemoteServer, path: str, most: int) -> tuple[Picture, Any]:
    """The image of an answer, of at most `most` pixels, and what the server says that it ignored. Raises
    GeneratorError."""
    where = f"{server.url}{path}"
    check_values(data, where)
    try:
        answer = ImagesAnswer.model_validate_json(data)
    except ValidationError as error:
        raise GeneratorError(
            f"{where} answered something else than images "
            f"({error.errors(include_url=False)[0]['msg']}): {server.quote(data)}",
            "Does this server speak the OpenAI Images API?",
        ) from error
    del data
    image = answer.data[0]
    content = image.b64_json or (image.url if image.url and image.url.startswith("data:image/") else None)
    if content is None:
        fault = f"an address ({server.quote(image.url[:100])})" if image.url else "neither image nor address"
        raise GeneratorError(
            f"{where} answered with {fault} instead of an image.",
            "Addresses are not followed: have the server answer with b64_json.",
        )
    try:
        return Picture.from_base64(content, f"The image from {server.url}", most), answer.ignored
    except PictureError as error:
        raise GeneratorError(error.message, error.hint) from error
