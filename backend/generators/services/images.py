"""Draws through the OpenAI Images API, which open servers (vLLM-Omni, SGLang), hosted models, proxies before
them and our own service speak.

Decision: what goes beyond the published API (seed, steps, guidance, negative) is sent only to a server that
takes it (described.py). Without a seed the generator is no longer one that draws the same twice: its identity
says `unseeded` and `repeatable` is False, so that no cache hands one image out for two draws. A refusal by
moderation is an error of that draw, and not asked again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, NoReturn

from PIL import Image, ImageChops

from ...errors import DrawRefused, GeneratorError, SettingsError
from ...pictures import Picture, open_mask
from ...remote.addresses import Addresses
from ...remote.balanced import GREETING_SECONDS, Unanswered
from ...remote.call import RemoteCall
from ...remote.endpoints import Endpoint
from ...remote.server import Form, RemoteServer
from ...types import MAX_STEP_IMAGES, StepSettings
from ...values import shown_beside
from ..protocol import bounded_identity
from .asking import ServiceQuery, ServiceRefused, asked
from .client import (
    DEADLINE,
    MARGIN,
    Reach,
    ServiceClient,
    at_the_same_time,
    late_error,
    request_digest,
)
from .described import FIELDS, MAX_BYTES, PAGE, Takes, described, named
from .image_answers import picture_in
from .makers import Maker
from .options import DrawOptions, read_options

MAX_ANSWER_BYTES = 128 * 1024 * 1024
MAX_ARGUMENT = 100_000
VERSION = "/v1"
FORMAT = "response_format"
UNSEEDED = "unseeded"
NOT_SHOWN = frozenset({400, 403, 404, 405, 422, 501})
"""Answers of servers that show nobody, or not everybody, which models they have."""
MODERATION = re.compile(r"moderation|content[_ ]policy|content[_ ]filter|safety|responsible[_ ]?ai", re.I)
MODERATION_STATUS = {400, 403, 422, 451}
EDITS, GENERATIONS = "/images/edits", "/images/generations"


class ImagesOptions(DrawOptions):
    """Options of servers of the Images API. `extras`: names of described.FIELDS with commas, or `none`;
    `mask`: file that is white where edits may change their source."""

    extras: str | None = None
    mask: str | None = None


OPTIONS = ImagesOptions
"""Whose fields `open` takes as options."""


def open(
    argument: str,
    *,
    deadline: float = DEADLINE,
    interrupted: Callable[[], bool] | None = None,
    **given: Any,
) -> ImagesGenerator:
    """Connect to `MODEL@URL1,URL2`, such as `qwen-image-edit@http://127.0.0.1:8000/v1` (a URL without a path
    gets /v1); `deadline` in seconds for an image, all tries together. `interrupted` is asked several times a
    second from the first question on, `given`: fields of ImagesOptions.

    Raises SettingsError for an unusable argument or option, GeneratorError if no server answers, Cancelled.
    """
    match = re.fullmatch(r"([^@\s]+)@(\S.*)", argument[:MAX_ARGUMENT])
    if match is None:
        raise SettingsError(
            "That does not name a model and its server.",
            "Write images:MODEL@URL, such as images:qwen-image-edit@http://127.0.0.1:8000/v1.",
        )
    wanted = read_options("images", ImagesOptions, given)
    wanted.sides  # noqa: B018 - refused before anything is asked
    addresses = Addresses(match[2], wanted.service_port, VERSION)
    return ImagesGenerator(match[1], Reach(addresses, deadline, interrupted, wanted.mixed), wanted)


@dataclass
class _Learned:
    """What answers taught: hosted models refuse to be told a format, others send addresses without."""

    names_format: bool = True


class ImagesGenerator(ServiceClient):
    """A client of servers that hold `model`. Raises GeneratorError, DrawRefused, Cancelled."""

    greeting = "/models"
    not_shown = NOT_SHOWN

    def __init__(self, model: str, reach: Reach, options: ImagesOptions) -> None:
        self._model, self._size = model, options.sides
        self._mask = open_mask(Path(options.mask).expanduser()) if options.mask else None
        self._beside: tuple[Picture, ...] = ()
        self._learned = _Learned()
        super().__init__(reach)
        self._takes = named(options.extras) if options.extras is not None else self._described()
        self.repeatable = "seed" in self._takes.extras
        self._extras = self._wanted(options)
        shown = {**self._extras, "size": options.size, "mask": self._mask and self._mask.digest}
        given = " ".join(f"{name}={value!r}" for name, value in sorted(shown.items()) if value is not None)
        who = self._makers.named(reach.addresses.now())
        seeded = "" if self.repeatable else UNSEEDED
        self.identity = bounded_identity(" ".join(filter(None, ("images", who, seeded, given))))

    @property
    def step_settings(self) -> frozenset[str]:
        """`mask` and `reference`, and `negative` where the servers take one."""
        return frozenset({"mask", "reference"} | ({"negative"} & self._takes.extras))

    @property
    def max_reference_images(self) -> int:
        """As many as the published API takes; a server that takes fewer refuses them."""
        return MAX_STEP_IMAGES - 1

    def with_step_settings(self, settings: StepSettings) -> ImagesGenerator:
        """The same servers, asked with these settings."""
        other = copy(self)
        if settings.negative is not None:
            other._extras = self._extras | {FIELDS["negative"]: settings.negative}
        if settings.mask is not None:
            other._mask = settings.mask.picture
        other._beside = shown_beside(settings)
        return other

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Have the image drawn (`source` None: from text, or from what is beside it) and return it. The
        source is sent first, then what is beside it, in order. Raises GeneratorError, DrawRefused or
        Cancelled."""
        images = [*((source,) if source else ()), *self._beside]
        digest = request_digest(prompt, images, seed)
        width, height = self._size or (images[0].size if images else (0, 0))
        most = self._most_pixels(width, height)

        def read(server: RemoteServer, said: bytes) -> Picture:
            picture, ignored = picture_in(said, server, question.path, most)
            self._unused.show(server, ignored)
            return picture

        question = self._question(prompt, images, seed)
        try:
            return self._draw(question, digest, read)
        except ServiceRefused as refusal:
            if FORMAT not in refusal.said or not self._learned.names_format:
                _raise(refusal)
            self._learned.names_format = False
            try:
                return self._draw(self._question(prompt, images, seed), digest, read)
            except ServiceRefused as second:
                _raise(second)

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
        """The mask as this server reads one: white, or transparent, where the image may change."""
        white = mask.image.convert("L").resize(source.size, Image.Resampling.NEAREST)
        if "mask_image" in self._takes.extras:
            return "mask_image", "mask.png", _png(white)
        shown = source.image.copy()
        shown.putalpha(ImageChops.invert(white))
        return "mask", "mask.png", _png(shown)

    def _wanted(self, options: ImagesOptions) -> dict[str, Any]:
        """The options as fields; raises SettingsError for one that the servers do not take."""
        extras = self._takes.extras
        guidance = "true_cfg" if "true_cfg" in extras and "guidance" not in extras else "guidance"
        asked_for = {"steps": options.steps, guidance: options.guidance, "negative": options.negative}
        for name, value in asked_for.items():
            if value is not None and name not in extras:
                raise SettingsError(
                    f"{self._where} does not say that it takes {name}.",
                    f"Leave it out, or name in extras what the server takes: {name},...",
                )
        return {FIELDS[name]: value for name, value in asked_for.items() if value is not None}

    def _read_greeting(self, endpoint: Endpoint, said: bytes) -> None:
        self._makers.add(endpoint.url, Maker(self._model))

    def _described(self) -> Takes:
        """What all servers of the list that are there take, by their own descriptions."""
        found: list[Takes] = []
        seconds = min(self._deadline, GREETING_SECONDS)
        where = f"GET {PAGE} of {self._where}"
        late = late_error(where, seconds)

        def read(endpoint: Endpoint, call: RemoteCall) -> None:
            server = _beside_version(endpoint.server)
            page = ServiceQuery("GET", PAGE, MAX_BYTES, missing=NOT_SHOWN | {401})
            try:
                said = asked(server, call, page, min(GREETING_SECONDS, call.seconds_left))
            except (Unanswered, GeneratorError):
                said = b""  # a server need not describe itself
            found.append(described(said))

        def ask(call: RemoteCall) -> list[Takes]:
            there = [one for one in self._endpoints.now() if not one.must_greet]
            pages = [lambda one=one: read(one, call) for one in there]
            for error in at_the_same_time(pages, seconds, late):
                if error is not late:
                    raise error
                found.append(Takes())
            return found

        return reduce(Takes.and_also, self._carried_out(ask, seconds + MARGIN, where))


def _beside_version(server: RemoteServer) -> RemoteServer:
    """The same server, asked beside its /v1."""
    other = copy(server)
    other.url = server.url.removesuffix(VERSION)
    return other


def _raise(refusal: ServiceRefused) -> NoReturn:
    """Raise a refusal as what it is."""
    if refusal.status in MODERATION_STATUS and MODERATION.search(refusal.said):
        raise DrawRefused(
            f"{refusal.url} will not draw this: {refusal.said.rstrip('.')}.", "Change the prompt."
        ) from None
    raise refusal from None


def _png(image: Image.Image) -> bytes:
    from io import BytesIO

    held = BytesIO()
    image.save(held, "PNG", compress_level=1)
    return held.getvalue()
