"""Generates with the OpenAI Images API, which vLLM-Omni, SGLang, hosted models, proxies and `serve` support.

Hosted models accept no seed and reject unknown fields. Open servers accept a dozen fields and do not report
it in their answers. Testing a field costs an image, so the description that open servers provide (OpenAPI, at
/openapi.json) is read instead. A server without one is assumed to follow the published API: no seed, and
therefore no repeatable images. Its identity then contains `unseeded`, so that no cache returns one image for
two attempts. A refusal by moderation is an error of that image and is not retried.

Only an image in the answer itself is accepted, as base64 or as a data URL (`data:image/...`). An address in
it could point anywhere, so it is never followed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from PIL import Image, ImageChops
from pydantic import BaseModel, ConfigDict, Field

from ...core.errors import GeneratorError, SettingsError
from ...core.files.bounded_reader import parse_json
from ...core.pictures import Picture, open_mask
from ...core.remote.addresses import Addresses
from ...core.remote.balanced import Endpoint, Unanswered
from ...core.remote.call import RemoteCall
from ...core.remote.server import Form, RemoteServer
from ...core.types import MAX_STEP_IMAGES, StepSettings, shown_beside
from ...core.types.values import bounded_identity, read_options
from .service_client import (
    DEADLINE,
    MAX_ANSWER_BYTES,
    DrawOptions,
    Maker,
    Reach,
    ServiceClient,
    ServiceQuery,
    ServiceRefused,
    asked,
    decoded,
    raise_refusal,
    read_answer,
    request_digest,
)

PAGE, PAGE_SECONDS = "/openapi.json", 5.0
MAX_BYTES = 8 * 1024 * 1024
MAX_VALUES = 400_000
ROUTES = ("/images/generations", "/images/edits")
FIELDS = {
    "seed": "seed",
    "steps": "num_inference_steps",
    "guidance": "guidance_scale",
    "true_cfg": "true_cfg_scale",
    "negative": "negative_prompt",
    "mask_image": "mask_image",
}
"""Optional fields: their names here, and in a request.

`mask_image` is white where the image may change. The API's own `mask` is transparent there.
"""
NONE = "none"
MAX_ARGUMENT = 100_000
VERSION = "/v1"
FORMAT = "response_format"
UNSEEDED = "unseeded"
NOT_SHOWN = frozenset({400, 403, 404, 405, 422, 501})
"""Statuses of servers that do not list their models, or not for everyone."""
EDITS, GENERATIONS = "/images/edits", "/images/generations"


class ImagesOptions(DrawOptions):
    """Options of servers of the Images API.

    Attributes:
        extras: Names of `FIELDS` separated by commas, or `none`.
        mask: Image file that is white where edits may change the source image.
    """

    extras: str | None = None
    mask: str | None = None


OPTIONS = ImagesOptions
"""`open` accepts the fields of this class as options."""


def open(
    argument: str,
    *,
    deadline: float = DEADLINE,
    interrupted: Callable[[], bool] | None = None,
    **given: Any,
) -> ImagesGenerator:
    """Connect to the servers `MODEL@URL1,URL2`.

    Args:
        argument: Such as `qwen-image-edit@http://127.0.0.1:8000/v1`. A URL without a path gets /v1.
        deadline: Seconds for an image, including all retries.
        interrupted: Called several times a second, from the first request on. Requests stop when it returns
            True.
        **given: Options, see ImagesOptions.

    Raises:
        SettingsError: The argument or an option is invalid.
        GeneratorError: No server answers.
        Cancelled: `interrupted` returned True.
    """
    match = re.fullmatch(r"([^@\s]+)@(\S.*)", argument[:MAX_ARGUMENT])
    if match is None:
        raise SettingsError(
            "The argument does not name a model and its server.",
            "Use images:MODEL@URL, for example images:qwen-image-edit@http://127.0.0.1:8000/v1.",
        )
    wanted = read_options("Generator 'images'", ImagesOptions, given)
    addresses = Addresses(match[2], wanted.service_port, VERSION)
    return ImagesGenerator(match[1], Reach(addresses, deadline, interrupted, wanted.mixed), wanted)


@dataclass
class _Learned:
    """What answers have shown: hosted models reject a response format, others return addresses without it."""

    names_format: bool = True


class ImagesGenerator(ServiceClient):
    """A client of servers of `model`."""

    greeting = "/models"
    not_shown = NOT_SHOWN

    def __init__(self, model: str, reach: Reach, options: ImagesOptions) -> None:
        self._model, self._size = model, options.sides
        self._mask = open_mask(Path(options.mask).expanduser()) if options.mask else None
        self._beside: tuple[Picture, ...] = ()
        self._learned = _Learned()
        self._named = named(options.extras) if options.extras is not None else None
        self._described: dict[str, Takes] = {}
        super().__init__(reach)
        self._takes = self._named or reduce(Takes.and_also, self._described.values())
        self._extras = self._wanted(options)
        shown = {**self._extras, "size": options.size, "mask": self._mask and self._mask.digest}
        given = " ".join(f"{name}={value!r}" for name, value in sorted(shown.items()) if value is not None)
        who = self._makers.named(reach.addresses.now())
        seeded = "" if self.repeatable else UNSEEDED
        self._identity = bounded_identity(" ".join(filter(None, ("images", who, seeded, given))))

    @property
    def repeatable(self) -> bool:
        """Whether the servers accept a seed."""
        return "seed" in self._takes.extras

    @property
    def step_settings(self) -> frozenset[str]:
        """`mask`, `reference` and `size`, and `negative` if the servers accept it."""
        return frozenset({"mask", "reference", "size"} | ({"negative"} & self._takes.extras))

    @property
    def max_reference_images(self) -> int:
        """The maximum of the published API. A server with a lower limit rejects the request."""
        return MAX_STEP_IMAGES - 1

    def with_step_settings(self, settings: StepSettings) -> ImagesGenerator:
        """Return a client of the same servers with these settings."""
        other = copy(self)
        if settings.negative is not None:
            other._extras = self._extras | {FIELDS["negative"]: settings.negative}
        if settings.mask is not None:
            other._mask = settings.mask.picture
        other._beside = shown_beside(settings)
        other._size = settings.sides or self._size
        return other

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Request an image and return it.

        Args:
            prompt: What to generate, or how to edit the source image.
            source: Image to edit, sent first, before the reference images. None generates from text or
                references.
            seed: Seed, if the servers accept one.

        Raises:
            DrawRefused: Moderation refuses the prompt.
            GeneratorError: The generation failed.
            Cancelled: The generation was interrupted.
        """
        images = [*((source,) if source else ()), *self._beside]
        digest = request_digest(prompt, images, seed)
        width, height = self._size or (images[0].size if images else (0, 0))
        most = self._most_pixels(width, height)

        def read(server: RemoteServer, said: bytes) -> Picture:
            picture, ignored = image_in(said, server, question.path, most)
            self._log_unused(server, ignored)
            return picture

        question = self._question(prompt, images, seed)
        while True:
            try:
                return self._draw(question, digest, read)
            except ServiceRefused as refusal:
                if FORMAT not in refusal.said or not self._learned.names_format:
                    raise_refusal(refusal)
            self._learned.names_format = False
            question = self._question(prompt, images, seed)

    def _question(self, prompt: str, images: Sequence[Picture], seed: int) -> ServiceQuery:
        fields: dict[str, Any] = {"model": self._model, "prompt": prompt, "n": 1, **self._extras}
        if self._size:
            fields["size"] = "{}x{}".format(*self._size)
        if self._learned.names_format:
            fields[FORMAT] = "b64_json"
        if self.repeatable:
            fields["seed"] = seed
        if not images:
            return ServiceQuery("POST", GENERATIONS, MAX_ANSWER_BYTES, fields)
        name = "image[]" if len(images) > 1 and self._takes.array else "image"
        files = [(name, f"image-{number}.png", one.png()) for number, one in enumerate(images, 1)]
        if self._mask is not None:
            files.append(self._mask_file(self._mask, images[0]))
        form = Form({key: str(value) for key, value in fields.items()}, files)
        return ServiceQuery("POST", EDITS, MAX_ANSWER_BYTES, form)

    def _mask_file(self, mask: Picture, source: Picture) -> tuple[str, str, bytes]:
        """Return the mask as the server expects it: white, or transparent, where the image may change."""
        white = mask.image.convert("L").resize(source.size, Image.Resampling.NEAREST)
        if "mask_image" in self._takes.extras:
            return "mask_image", "mask.png", _png(white)
        shown = source.image.copy()
        shown.putalpha(ImageChops.invert(white))
        return "mask", "mask.png", _png(shown)

    def _wanted(self, options: ImagesOptions) -> dict[str, Any]:
        """Return the options as fields of a request.

        Raises:
            SettingsError: The servers do not accept an option.
        """
        extras = self._takes.extras
        guidance = "true_cfg" if "true_cfg" in extras and "guidance" not in extras else "guidance"
        asked_for = {"steps": options.steps, guidance: options.guidance, "negative": options.negative}
        for name, value in asked_for.items():
            if value is not None and name not in extras:
                raise SettingsError(
                    f"{self._where} does not report support for {name}.",
                    f"Omit it, or list what the server accepts in extras: {name},...",
                )
        return {FIELDS[name]: value for name, value in asked_for.items() if value is not None}

    def _read_greeting(self, endpoint: Endpoint, said: bytes) -> None:
        self._makers.add(endpoint.url, Maker(self._model))

    def _greet(self, endpoint: Endpoint, call: RemoteCall) -> None:
        """Greet a server, and read what it accepts in its own description, which is optional."""
        super()._greet(endpoint, call)
        if self._named is not None or endpoint.url in self._described:
            return
        page = ServiceQuery("GET", PAGE, MAX_BYTES, missing=NOT_SHOWN | {401})
        try:
            said = asked(_beside_version(endpoint.server), call, page, min(PAGE_SECONDS, call.seconds_left))
        except (Unanswered, GeneratorError):
            said = b""
        self._described[endpoint.url] = described(said)


def _beside_version(server: RemoteServer) -> RemoteServer:
    """Return the same server without the version in its URL."""
    other = copy(server)
    other.url = server.url.removesuffix(VERSION)
    return other


def _png(image: Image.Image) -> bytes:
    from io import BytesIO

    held = BytesIO()
    image.save(held, "PNG", compress_level=1)
    return held.getvalue()


@dataclass(frozen=True)
class Takes:
    """The optional fields that a server accepts, by their names in FIELDS.

    `array`: several images are sent as `image[]`, not as repeated `image`.
    """

    extras: frozenset[str] = frozenset()
    array: bool = True

    def and_also(self, other: Takes) -> Takes:
        """Return what both servers accept."""
        return Takes(self.extras & other.extras, self.array and other.array)


def named(extras: str) -> Takes:
    """Return the optional fields of a list such as `seed,steps`, or of `none`.

    Raises:
        SettingsError: A name is unknown.
    """
    names = [name.strip() for name in extras.split(",")]
    names = [] if names == [NONE] else names
    for name in names:
        if name not in FIELDS:
            raise SettingsError(f"Unknown optional field {name!r}.", f"Use {', '.join(FIELDS)}, or {NONE}.")
    return Takes(frozenset(names))


def described(page: bytes) -> Takes:
    """Return the optional fields that all image routes of an OpenAPI description have, or none."""
    try:
        whole = parse_json(page, GeneratorError, PAGE, MAX_VALUES)
    except GeneratorError:
        return Takes()
    paths = _part(whole, "paths")
    routes = [
        set(_fields(paths[path], whole))
        for path in paths
        if re.split("[?#]", path, maxsplit=1)[0].endswith(ROUTES)
    ]
    if not routes:
        return Takes()
    # A mask applies only to edits.
    common = set.intersection(*routes) | ({"mask_image"} & set.union(*routes))
    if any("mask" in route for route in routes):
        common -= {"mask_image"}
    extras = frozenset(name for name, field in FIELDS.items() if field in common)
    every = set.union(*routes)
    return Takes(extras, "image[]" in every or "image" not in every)


def _fields(route: Any, whole: Any) -> Iterator[str]:
    """Yield the names of the fields that the body of a route may have."""
    content = _part(route, "post", "requestBody", "content")
    for kind in content.values():
        schema = _part(kind, "schema")
        parts = schema.get("allOf")
        for one in [schema, *(parts if isinstance(parts, list) else ())]:
            one = _part(one)
            reference = one.get("$ref")
            if isinstance(reference, str) and reference.startswith("#/"):
                one = _part(whole, *reference[2:].split("/"))
            yield from _part(one, "properties")


def _part(value: Any, *names: str) -> dict[str, Any]:
    """Return the object at this path, or an empty one."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


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


def image_in(data: bytes, server: RemoteServer, path: str, most: int) -> tuple[Picture, Any]:
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
    answer = read_answer(ImagesAnswer, data, where, server, "images")
    del data
    image = answer.data[0]
    content = image.b64_json or (image.url if image.url and image.url.startswith("data:image/") else None)
    if content is None:
        fault = f"an address ({server.quote(image.url[:100])})" if image.url else "neither image nor address"
        raise GeneratorError(
            f"{where} returned {fault} instead of an image.",
            "Addresses are not followed: configure the server to return b64_json.",
        )
    return decoded(content, server, most), answer.ignored
