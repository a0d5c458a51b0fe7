"""Generates with the Gemini API (`generateContent` with image output), as the published Nano-Pro script.

That script generates 1:1 images of class 1K, without a seed, and shows the model the earlier images at up to
512 pixels. Those are the defaults here. With the run setting `source: all` the model sees all earlier images
in the order of the story, the edited one last, as there.

The API has no reliable seed, so the generator is not repeatable. An answer without an image is a failed
attempt with the reason, because the provider answers with status 200: a blocked prompt has no candidates but
a `blockReason`, a blocked image a `finishReason` such as IMAGE_SAFETY and no content, and a model that only
writes text the reason STOP or NO_IMAGE. Parts marked as `thought` are drafts of the model.

Sources, read in November 2026 and not run against the provider: the reference of `ImageConfig` (aspect
ratios; 1K, 2K and 4K; default 1K) at hexdocs.pm/geminix and docs.cloud.google.com (AIPlatform V1), the ratios
of gemini-nano-banana-2.1 at docs.laozhang.ai,
`responseModalities` and `inlineData` in the REST references of docs.aiandgpu.com and apifox.newapi.ai,
`x-goog-api-key` at docs-en.ccapi.ai and xairouter.com, and `FinishReason` in the source of
firebase/flutterfire (pull request 17761).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from copy import copy
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from ...core.errors import DrawRefused, GeneratorError, SettingsError
from ...core.pictures import Picture
from ...core.remote.addresses import Addresses
from ...core.remote.api_keys import GEMINI_KEY, key_for, read_key
from ...core.remote.balanced import Endpoint
from ...core.remote.server import RemoteServer
from ...core.types import MAX_STEP_IMAGES, DrawSettings, StepSettings, shown_beside
from ...core.types.run_settings import AnySize
from ...core.types.values import bounded_identity, read_options
from .images_api import UNSEEDED
from .service_client import (
    DEADLINE,
    MAX_ANSWER_BYTES,
    ListOptions,
    Maker,
    Reach,
    ServiceClient,
    ServiceQuery,
    ServiceRefused,
    decoded,
    raise_refusal,
    read_answer,
    request_digest,
)

PROVIDER = "https://generativelanguage.googleapis.com"
VERSION = "/v1beta"
KEY_HEADER = "x-goog-api-key"
MAX_ARGUMENT = 100_000
MAX_IMAGES = 14
"""Maximum number of images in a request, for gemini-3-pro-image and gemini-nano-banana-2.1."""
RATIOS = ("1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "21:9")
LONG_RATIOS = ("1:4", "4:1", "1:8", "8:1")
"""Further aspect ratios, which the models in WITHOUT_LONG do not have."""
WITHOUT_LONG = ("gemini-2.", "gemini-3-pro")
LARGEST_ERROR = 0.05
"""Maximum relative difference between a requested aspect ratio and one of the model."""
CLASS_SIDE = 1024
"""Side in pixels of a square image of class 1K."""
MAX_CLASS = 4
WITHOUT_CLASSES = "gemini-2."
"""Beginning of the names of models that have only 1K and no field for it."""


class GeminiOptions(ListOptions):
    """Options of the Gemini API.

    Attributes:
        size: WIDTHxHEIGHT in pixels, which selects the closest aspect ratio and class (1K, 2K or 4K).
        input_side: Maximum width and height in pixels of the images that are sent.
    """

    size: AnySize | None = "1024x1024"
    input_side: int = Field(default=512, ge=64, le=4096)


OPTIONS = GeminiOptions
"""`open` accepts the fields of this class as options."""


def open(
    argument: str,
    *,
    deadline: float = DEADLINE,
    interrupted: Callable[[], bool] | None = None,
    **given: Any,
) -> GeminiGenerator:
    """Connect to the provider, or to the proxies of `MODEL@URL1,URL2`.

    The key in GEMINI_API_KEY is sent to the provider, to this machine and to the hosts in
    GEMINI_API_KEY_HOSTS.

    Args:
        argument: Such as `gemini-3-pro-image`. A URL without a path gets /v1beta.
        deadline: Seconds for an image, including all retries.
        interrupted: Called several times a second, from the first request on. Requests stop when it returns
            True.
        **given: Options, see GeminiOptions.

    Raises:
        SettingsError: The argument or an option is invalid, the key is missing, or it must not be sent to
            this host.
        GeneratorError: The provider does not answer.
        Cancelled: `interrupted` returned True.
    """
    match = re.fullmatch(r"([A-Za-z0-9][A-Za-z0-9._-]{0,199})(?:@(\S.*))?", argument[:MAX_ARGUMENT])
    if match is None:
        raise SettingsError(
            "The argument is not the name of a Gemini model.",
            "Use gemini:MODEL, such as gemini:gemini-3-pro-image, or gemini:MODEL@URL for a proxy.",
        )
    wanted = read_options("Generator 'gemini'", GeminiOptions, given)
    shape = image_shape(wanted.sides or (CLASS_SIDE, CLASS_SIDE), match[1])
    if match[2] is None and read_key(GEMINI_KEY) is None:
        raise SettingsError(
            f"The Gemini API needs a key, and the environment variable {GEMINI_KEY} is not set.",
            f"Set {GEMINI_KEY} to your key. The provider charges for each image.",
        )
    addresses = Addresses(match[2] or PROVIDER, wanted.service_port, VERSION)
    return GeminiGenerator(match[1], Reach(addresses, deadline, interrupted, wanted.mixed), shape, wanted)


def image_shape(size: tuple[int, int], model: str) -> tuple[str, int]:
    """Return the aspect ratio and the class (1, 2 or 4 for 1K, 2K or 4K) closest to a size.

    Args:
        size: Width and height in pixels.
        model: Name of the model.

    Raises:
        SettingsError: The API has no similar aspect ratio.
    """
    width, height = size
    ratios = RATIOS if model.startswith(WITHOUT_LONG) else RATIOS + LONG_RATIOS

    def error(ratio: str) -> float:
        across, down = map(int, ratio.split(":"))
        return abs(math.log(width / height * down / across))

    closest = min(ratios, key=error)
    if error(closest) > math.log1p(LARGEST_ERROR):
        raise SettingsError(
            f"{model} of the Gemini API cannot generate images of {width}x{height}.",
            f"Use a size with one of the aspect ratios {', '.join(ratios)}.",
        )
    step = round(math.log2(math.sqrt(width * height) / CLASS_SIDE))
    return closest, min(MAX_CLASS, 2 ** max(0, step))


class GeminiGenerator(ServiceClient):
    """A client of the Gemini API with `model`."""

    key_variable = GEMINI_KEY

    def __init__(self, model: str, reach: Reach, shape: tuple[str, int], options: GeminiOptions) -> None:
        self.greeting = f"/models/{model}"
        self._model, self._input_side = model, options.input_side
        self._ratio, self._class = shape
        self._step = StepSettings()
        super().__init__(reach)
        who = self._makers.named(reach.addresses.now())
        shown = f"size={self._ratio}@{self._class}K input_side={self._input_side}"
        self._identity = bounded_identity(" ".join(("gemini", who, UNSEEDED, shown)))

    @property
    def repeatable(self) -> bool:
        """False: the API has no reliable seed."""
        return False

    @property
    def step_settings(self) -> frozenset[str]:
        """`reference` and `size`. The API has no negative prompt and no mask."""
        return frozenset({"reference", "size"})

    @property
    def max_reference_images(self) -> int:
        """The maximum of the largest model. The provider rejects requests beyond the limit of another."""
        return min(MAX_IMAGES, MAX_STEP_IMAGES) - 1

    def with_step_settings(self, settings: StepSettings) -> GeminiGenerator:
        """Return a client of the same model with these settings.

        Raises:
            SettingsError: The API has no aspect ratio like that of the size.
        """
        other = copy(self)
        other._step = settings
        if settings.sides is not None:
            other._ratio, other._class = image_shape(settings.sides, self._model)
        return other

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Request an image and return it.

        Args:
            prompt: What to generate, or how to edit the source image.
            source: Image to edit. None generates from text or references.
            seed: Not sent. It selects the server if there are several.

        Raises:
            DrawRefused: The answer contains a reason instead of an image.
            GeneratorError: The generation failed.
            Cancelled: The generation was interrupted.
        """
        images = [self._reduced(one) for one in _in_order(source, self._step)]
        side = CLASS_SIDE * self._class
        most = self._most_pixels(side, side)

        def read(server: RemoteServer, said: bytes) -> Picture | GeneratorError:
            return picture_in(said, server, question.path, most)

        question = self._question(prompt, images)
        try:
            return self._draw(question, request_digest(prompt, images, seed), read)
        except ServiceRefused as refusal:
            raise_refusal(refusal)

    def _question(self, prompt: str, images: list[Picture]) -> ServiceQuery:
        parts: list[dict[str, Any]] = [{"text": prompt}]
        parts += [{"inlineData": {"mimeType": "image/png", "data": one.base64_png()}} for one in images]
        form = {"aspectRatio": self._ratio}
        if not self._model.startswith(WITHOUT_CLASSES):
            form["imageSize"] = f"{self._class}K"
        body = {
            "contents": [{"role": "user", "parts": parts}],
            # Text is allowed because the model gives the reason there if it generates no image.
            "generationConfig": {"responseModalities": ["TEXT", "IMAGE"], "imageConfig": form},
        }
        path = f"/models/{self._model}:generateContent"
        return ServiceQuery("POST", path, MAX_ANSWER_BYTES, body, key_variable=GEMINI_KEY)

    def _reduced(self, picture: Picture) -> Picture:
        width, height = picture.size
        scale = min(1.0, self._input_side / max(width, height))
        return picture.scaled_to((max(1, round(width * scale)), max(1, round(height * scale))))

    def _server(self, url: str) -> RemoteServer:
        return RemoteServer(url, key_for(GEMINI_KEY, url), GeneratorError, KEY_HEADER)

    def _read_greeting(self, endpoint: Endpoint, said: bytes) -> None:
        self._makers.add(endpoint.url, Maker(self._model))


def _in_order(source: Picture | None, settings: StepSettings) -> tuple[Picture, ...]:
    """Return the images of a request in the order of the story, the source image last, as published.

    Images of a cast are numbered in the prompt, after the source image. They keep this order.
    """
    edited, shown = (source,) if source else (), shown_beside(settings)
    drawn = settings if isinstance(settings, DrawSettings) else DrawSettings()
    if drawn.cast and drawn.cast.names:
        return (*edited, *shown)
    # The loop gives the first image of the story, then the newest ones.
    earlier = len(drawn.beside)
    return (*shown[:earlier][:1], *reversed(shown[1:earlier]), *shown[earlier:], *edited)


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
    answer = read_answer(GeminiAnswer, data, where, server, "an answer of the Gemini API")
    if not answer.candidates and answer.prompt_feedback is None:
        raise GeneratorError(f"{where} returned neither an image nor a reason: {server.quote(data)}.")
    del data
    parts = [part for one in answer.candidates[:1] if one.content for part in one.content.parts]
    images = [part.inline_data for part in parts if part.inline_data and not part.thought]
    if not images:
        reason = server.quote(_reason(answer, parts))
        return DrawRefused(f"{server.url} returned no image: {reason.rstrip('.')}.", "Change the prompt.")
    return decoded(images[-1].data, server, most)


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
