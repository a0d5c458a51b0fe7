"""Reads the image, or the reason for its absence, from an answer of the Gemini API.

A blocked prompt has no candidates but a `blockReason`. A blocked image has a `finishReason` such as
IMAGE_SAFETY and no content. A model that only writes text has the reason STOP or NO_IMAGE. Parts marked as
`thought` are drafts of the model.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from ...errors import DrawRefused, GeneratorError, PictureError
from ...pictures import Picture
from ...remote.server import RemoteServer
from .request_parts import check_values


class _Part(BaseModel):
    """A part of an answer. The API writes camel case and accepts both; proxies also write snake case."""

    model_config = ConfigDict(extra="ignore", alias_generator=to_camel, populate_by_name=True)


class InlineData(_Part):
    """A file in base64."""

    mime_type: str = ""
    data: str


class ContentPart(_Part):
    """A text or a file."""

    text: str | None = None
    inline_data: InlineData | None = None
    thought: bool = False


class Content(_Part):
    """The message of the model."""

    parts: list[ContentPart] = Field(default_factory=list)


class Candidate(_Part):
    """One of the alternatives, of which the first is used."""

    content: Content | None = None
    finish_reason: str = ""
    finish_message: str = ""


class PromptFeedback(_Part):
    """What the provider reports about the request."""

    block_reason: str = ""
    block_reason_message: str = ""


class GeminiAnswer(_Part):
    """The answer of `generateContent`. Other keys are ignored."""

    candidates: list[Candidate] = Field(default_factory=list)
    prompt_feedback: PromptFeedback | None = None


def picture_in(data: bytes, server: RemoteServer, path: str, most: int) -> Picture | DrawRefused:
    """Read the image of an answer.

    Args:
        data: Body of the answer.
        server: The server.
        path: Path of the route.
        most: Maximum number of pixels.

    Returns:
        The last image that is not a draft, or the reason that the provider gives instead.

    Raises:
        GeneratorError: The answer is invalid.
    """
    where = f"{server.url}{path}"
    check_values(data, where)
    try:
        answer = GeminiAnswer.model_validate_json(data)
    except ValidationError as error:
        raise GeneratorError(
            f"{where} did not return an answer of the Gemini API "
            f"({error.errors(include_url=False)[0]['msg']}): {server.quote(data)}",
            "Check that this server supports generateContent.",
        ) from error
    if not answer.candidates and answer.prompt_feedback is None:
        raise GeneratorError(f"{where} returned neither an image nor a reason: {server.quote(data)}.")
    del data
    parts = [part for one in answer.candidates[:1] if one.content for part in one.content.parts]
    images = [part.inline_data for part in parts if part.inline_data and not part.thought]
    if not images:
        reason = server.quote(_reason(answer, parts))
        return DrawRefused(f"{server.url} returned no image: {reason.rstrip('.')}.", "Change the prompt.")
    try:
        return Picture.from_base64(images[-1].data, f"The image from {server.url}", most)
    except PictureError as error:
        raise GeneratorError(error.message, error.hint) from error


def _reason(answer: GeminiAnswer, parts: list[ContentPart]) -> str:
    """Return why an answer has no image: the codes first, then the explanations."""
    feedback = answer.prompt_feedback or PromptFeedback()
    first = answer.candidates[0] if answer.candidates else Candidate()
    texts = [part.text.strip() for part in parts if part.text and not part.thought]
    said = (
        feedback.block_reason,
        feedback.block_reason_message,
        first.finish_reason,
        first.finish_message,
        *texts,
    )
    return ", ".join(one for one in said if one) or "no reason given"
