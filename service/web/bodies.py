"""Request bodies and answers: those of the published services and of the Images API.

Unknown fields have no effect, as in the published services, but the answer lists them. Fields with several
published names are accepted by each of them. A value out of range is an error (422) and is never clipped.
Every rejection is JSON with `success: false` and `error`, because clients of the published services parse the
body of every status. Under /v1 it has the format of the Images API.
"""

from __future__ import annotations

import base64
import json
import math
import time
import uuid
from itertools import islice
from typing import Annotated, Any, Literal

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    model_validator,
)
from typing_extensions import Self

from ...backend.core.types.run_settings import MAX_SIDE, MIN_SIDE
from ..pool import GeneratedImage, ServiceError

IMAGES_API = "/v1"


def is_images_api(path: str) -> bool:
    """Return whether a path belongs to the Images API."""
    return path == IMAGES_API or path.startswith(f"{IMAGES_API}/")


def error_body(path: str, error: ServiceError) -> dict[str, Any]:
    """Return the JSON of an error. `detail` is as in FastAPI's own errors."""
    said = str(error)
    detail = getattr(error, "detail", said)
    if is_images_api(path):
        kind = "invalid_request_error" if status_of(path, error) < 500 else "server_error"
        described = {"message": said, "type": kind, "param": _field(detail), "code": type(error).__name__}
        return {"error": described, "detail": detail}
    return {"success": False, "error": said, "detail": detail}


def error_headers(error: ServiceError) -> dict[str, str]:
    """Return the headers of an error, with Retry-After if known."""
    headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    return headers


def status_of(path: str, error: ServiceError) -> int:
    """Return the HTTP status of an error.

    A refusal by the model is a normal answer for clients of the published services, and a bad request for
    others.
    """
    return 400 if error.status == 200 and is_images_api(path) else error.status


def _field(detail: Any) -> str | None:
    """Return the invalid field of a body, from FastAPI's list of errors."""
    place = detail[0].get("loc", ()) if isinstance(detail, list) and detail else ()
    return ".".join(map(str, place[1:])) or None


def drawn_body(drawn: GeneratedImage, said: dict[str, Any], image: str, seconds: str) -> bytes:
    """Return the JSON of an image.

    Args:
        drawn: The image.
        said: Further fields.
        image: Field name of the file in base64.
        seconds: Field name of the duration.
    """
    fields = {
        "success": True,
        "task_id": uuid.uuid4().hex,
        "seed": drawn.seed,
        "gpu_id": drawn.gpu,
        seconds: round(drawn.draw_seconds + drawn.encode_seconds, 4),
        "error": None,
        "worker": drawn.worker,
        "size": list(drawn.size),
        "ignored": list(drawn.ignored),
        **said,
    }
    # Base64 contains no characters to escape, so json.dumps would only waste time on megabytes.
    head = json.dumps(fields)[:-1].encode()
    return head + f', "{image}": "'.encode() + base64.b64encode(drawn.image) + b'"}'


def images_body(images: list[GeneratedImage]) -> bytes:
    """Return the JSON of the Images API. Seeds and ignored settings are additional fields."""
    parts = [
        b'{"b64_json": "%s", "seed": %d, "revised_prompt": null}' % (base64.b64encode(one.image), one.seed)
        for one in images
    ]
    ignored = json.dumps(sorted({name for one in images for name in one.ignored})).encode()
    head = b'{"created": %d, "ignored": %s, "data": [' % (int(time.time()), ignored)
    return head + b", ".join(parts) + b"]}"


MAX_PROMPT = 20_000
MAX_SEED = 2**53
RANDOM_SEEDS = 2**31
MAX_DRAWN_PIXELS = 16 * 1024 * 1024
MAX_VALUES = 10_000
MAX_IMAGES = 16
MAX_PER_REQUEST = 10
MAX_FAULTS = 20
MAX_UNKNOWN, MAX_NAME = 20, 60
NOTHING: tuple[Any, ...] = (None, False, "", [], {})
"""Values with which a field requests nothing."""
NO_OPTION = ("user", "image", "mask", "mask_image", "image_file", "mask_file")
"""Fields that do not affect the image, or that are files in a form."""
ASPECT_RATIOS = {
    "1:1": (1328, 1328),
    "16:9": (1664, 928),
    "9:16": (928, 1664),
    "4:3": (1472, 1104),
    "3:4": (1104, 1472),
    "3:2": (1584, 1056),
    "2:3": (1056, 1584),
}
"""Width and height in pixels of the ratios in the published services."""


def _is_number(value: Any) -> Any:
    """Reject true and false, which pydantic would convert to 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("expected a number, not true or false")
    return value


Number = BeforeValidator(_is_number)
Prompt = Annotated[str, Field(min_length=1, max_length=MAX_PROMPT)]
Negative = Annotated[str | None, Field(max_length=MAX_PROMPT)]
Seed = Annotated[int | None, Field(ge=0, le=MAX_SEED), Number]
Side = Annotated[int | None, Field(ge=MIN_SIDE, le=MAX_SIDE), Number]
Base64 = Annotated[str | None, Field(repr=False)]


class BadImage(ServiceError):
    """An image of a body is invalid or missing."""

    status = 400


class BadBody(ServiceError):
    """A body is invalid. `detail` is FastAPI's list of errors."""

    status = 422

    def __init__(self, detail: list[dict[str, Any]]) -> None:
        first = detail[0]
        where = ".".join(str(part) for part in first["loc"][1:]) or "body"
        super().__init__(f"{where}: {first['msg']}.")
        self.detail = detail


class DrawBody(BaseModel):
    """The common fields of all requests."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False, populate_by_name=True)

    _unknown: tuple[str, ...] = PrivateAttr(())
    prompt: Prompt
    negative_prompt: Negative = None
    seed: Seed = Field(default=None, description="The same seed gives the same image. null: random.")
    guidance_scale: Annotated[float | None, Field(ge=0.0, le=100.0), Number] = Field(
        default=None, validation_alias=AliasChoices("guidance_scale", "text_guidance_scale", "true_cfg_scale")
    )
    num_inference_steps: Annotated[int | None, Field(ge=1, le=1000), Number] = Field(
        default=None, validation_alias=AliasChoices("num_inference_steps", "num_inference_step")
    )
    model: str | None = Field(default=None, max_length=200, description="A name from /models.")

    @property
    def pixels(self) -> tuple[int, int] | None:
        """Requested width and height."""
        return None

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names of fields that request something and are not supported."""
        return self._unknown

    @model_validator(mode="after")
    def _drop_unknown(self) -> Self:
        others = self.__pydantic_extra__ or {}
        asking = (name for name, value in others.items() if value not in NOTHING and name not in NO_OPTION)
        self._unknown = tuple(sorted(name[:MAX_NAME] for name in islice(asking, MAX_UNKNOWN)))
        others.clear()
        return self


class SizedBody(DrawBody):
    """A request with width and height."""

    width: Side = None
    height: Side = None

    @property
    def pixels(self) -> tuple[int, int] | None:
        """Requested width and height."""
        return (self.width, self.height) if self.width and self.height else None

    @model_validator(mode="after")
    def _whole_size(self) -> SizedBody:
        if (self.width is None) != (self.height is None):
            raise ValueError("width and height must be given together")
        _check_pixels(self.pixels)
        return self


class EditBody(SizedBody):
    """POST /edit: an image in base64 and a prompt. Without an image, it is generated from text."""

    image: Base64 = None
    mask_image: Base64 = Field(default=None, description="White or transparent where the image may change.")


class FillBody(SizedBody):
    """POST /fill: an image, and a mask of the area to repaint."""

    image: Annotated[str, Field(repr=False, min_length=1)]
    mask_image: Annotated[str, Field(repr=False, min_length=1)]


class GenerateBody(SizedBody):
    """POST /generate: an image from text. Width and height override the aspect ratio."""

    aspect_ratio: Literal["1:1", "16:9", "9:16", "4:3", "3:4", "3:2", "2:3"] | None = None

    @property
    def pixels(self) -> tuple[int, int] | None:
        """Requested width and height, or those of the aspect ratio."""
        given = super().pixels
        return given or (ASPECT_RATIOS[self.aspect_ratio] if self.aspect_ratio else None)


class ImagesBody(DrawBody):
    """The Images API with the additional fields of open servers.

    The body of POST /v1/images/generations, and the form fields of /v1/images/edits.
    """

    n: Annotated[int | None, Field(ge=1, le=MAX_PER_REQUEST), Number] = 1
    size: str | None = Field(
        default=None, pattern=r"^(auto|[0-9]{2,4}x[0-9]{2,4})$", description="WIDTHxHEIGHT or auto."
    )
    response_format: Literal["b64_json"] | None = None
    output_format: Literal["png", "webp"] | None = None
    stream: Literal[False] | None = Field(default=None, description="Events are not sent.")

    @property
    def pixels(self) -> tuple[int, int] | None:
        """Requested width and height."""
        if self.size in (None, "auto"):
            return None
        width, _, height = self.size.partition("x")
        return int(width), int(height)

    @model_validator(mode="after")
    def _size_in_range(self) -> ImagesBody:
        _check_pixels(self.pixels)
        return self


def read_body(kind: type[Any], data: bytes) -> Any:
    """Return the body in a JSON text.

    Raises:
        BadBody: The body is invalid.
    """
    # A value of two bytes becomes an object of a hundred. An image counts as one value.
    if data.count(b",") + data.count(b"[") + data.count(b"{") > MAX_VALUES:
        raise BadBody([fault("body", f"contains more than {MAX_VALUES} values")])
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        raise BadBody(_faults(error)) from error
    except RecursionError as error:
        raise BadBody([fault("body", "nested too deeply")]) from error


def read_fields(kind: type[Any], fields: dict[str, str]) -> Any:
    """Return the body in the fields of a form. Empty fields count as missing.

    Raises:
        BadBody: The body is invalid.
    """
    try:
        return kind.model_validate({name: value for name, value in fields.items() if value != ""})
    except ValidationError as error:
        raise BadBody(_faults(error)) from error


def _check_pixels(size: tuple[int, int] | None) -> None:
    if size is None:
        return
    if not all(MIN_SIDE <= side <= MAX_SIDE for side in size) or size[0] * size[1] > MAX_DRAWN_PIXELS:
        raise ValueError(
            f"sides must be {MIN_SIDE} to {MAX_SIDE} pixels, and the image at most {MAX_DRAWN_PIXELS} pixels"
        )


def _faults(error: ValidationError) -> list[dict[str, Any]]:
    found = error.errors(include_url=False, include_input=False, include_context=False)[:MAX_FAULTS]
    return [{**fault, "loc": ["body", *fault["loc"]], "msg": fault["msg"][:200]} for fault in found]


def fault(where: str, message: str) -> dict[str, Any]:
    """Return an error of FastAPI about a field of the body."""
    return {"type": "value_error", "loc": ["body", where], "msg": message}
