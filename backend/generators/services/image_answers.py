"""Reads the image from an answer of the OpenAI Images API.

Only an image in the answer itself is accepted, as base64 or as a data URL (`data:image/...`). An address in
it could point anywhere, so it is never followed.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...errors import GeneratorError, PictureError
from ...pictures import Picture
from ...remote.server import RemoteServer
from .request_parts import check_values


class ImageAnswer(BaseModel):
    """One image of an answer. Other keys are ignored."""

    model_config = ConfigDict(extra="ignore")

    b64_json: str | None = None
    url: str | None = None


class ImagesAnswer(BaseModel):
    """The answer of both routes. Other keys are ignored."""

    model_config = ConfigDict(extra="ignore")

    data: list[ImageAnswer] = Field(min_length=1)
    ignored: Any = None


def picture_in(data: bytes, server: RemoteServer, path: str, most: int) -> tuple[Picture, Any]:
    """Read the image of an answer.

    Args:
        data: Body of the answer.
        server: The service.
        path: Path of the route.
        most: Maximum number of pixels.

    Returns:
        The image, and the fields that the server reports as ignored.

    Raises:
        GeneratorError: The answer does not contain a valid image.
    """
    where = f"{server.url}{path}"
    check_values(data, where)
    try:
        answer = ImagesAnswer.model_validate_json(data)
    except ValidationError as error:
        raise GeneratorError(
            f"{where} did not return images "
            f"({error.errors(include_url=False)[0]['msg']}): {server.quote(data)}",
            "Check that this server supports the OpenAI Images API.",
        ) from error
    del data
    image = answer.data[0]
    content = image.b64_json or (image.url if image.url and image.url.startswith("data:image/") else None)
    if content is None:
        fault = f"an address ({server.quote(image.url[:100])})" if image.url else "neither image nor address"
        raise GeneratorError(
            f"{where} returned {fault} instead of an image.",
            "Addresses are not followed: configure the server to return b64_json.",
        )
    try:
        return Picture.from_base64(content, f"The image from {server.url}", most), answer.ignored
    except PictureError as error:
        raise GeneratorError(error.message, error.hint) from error
