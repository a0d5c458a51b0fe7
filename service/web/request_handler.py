"""From a request to an image: the common parts of all routes.

Bodies are parsed and images decoded in a few threads, so that a large image does not delay other answers. The
number of pixels is known from an image's header, and memory for it is reserved before it is decoded. A client
that hangs up is noticed, and its request leaves the queue.
"""

from __future__ import annotations

import asyncio
import base64
import io
import secrets
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from fastapi import Request
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from ...backend.core.errors import PictureError
from ...backend.core.files.image_decoding import decoded_mask, reading_image
from ...backend.core.pictures import Picture
from ..front import Front, RequestMemory
from ..pool import GeneratedImage, ImageFormat, ImageRequest, ModelInfo, ServiceError
from .bodies import MAX_IMAGES, RANDOM_SEEDS, BadBody, BadImage, DrawBody, EditBody, FillBody, fault
from .request_limits import SEEN

PIXEL_BYTES, DECODING_BYTES = 3, 8
"""Bytes per pixel of an image, and while it is decoded (transparency, 16 bits per channel)."""
MAX_SOURCE_PIXELS = 50_000_000
MASK = "mask"
MAX_ALL_PIXELS = 100_000_000
"""Maximum number of pixels of all images of a request."""


@dataclass(frozen=True)
class RequestImages:
    """The images of a request.

    Attributes:
        sources: Source images in the order in which they were sent.
        mask: The mask.
    """

    sources: tuple[Picture, ...] = ()
    mask: Picture | None = None


def images_in(body: EditBody | FillBody, share: RequestMemory) -> RequestImages:
    """Decode the images of a JSON body.

    Args:
        body: The body.
        share: Memory of the request.

    Raises:
        BadImage: An image is invalid or missing.
        Busy: Not enough memory is left.
    """
    if not body.image:
        if body.mask_image:
            raise BadImage("A mask requires an image.")
        return RequestImages()
    sources = [file_in(body.image, "image")]
    masks = [file_in(body.mask_image, "mask_image")] if body.mask_image else []
    return images_of(sources, masks, share)


def images_of(sources: list[bytes], masks: list[bytes], share: RequestMemory) -> RequestImages:
    """Decode image files.

    Args:
        sources: Files of source images.
        masks: Files of masks.
        share: Memory of the request.

    Raises:
        BadImage: An image is invalid or missing.
        BadBody: There are too many images.
        Busy: Not enough memory is left.
    """
    if len(sources) > MAX_IMAGES or len(masks) > 1:
        raise BadBody([fault("image", f"at most {MAX_IMAGES} images and one mask")])
    if not sources:
        raise BadImage("The image is missing.", "Send it as a file of the form.")
    names = [f"image {number}" if len(sources) > 1 else "image" for number in range(1, len(sources) + 1)]
    files = [*zip(names, sources, strict=True), *((MASK, mask) for mask in masks)]
    pixels = [pixels_in(data, name) for name, data in files]
    if sum(pixels) > MAX_ALL_PIXELS:
        raise BadImage(
            f"The images of the request have {sum(pixels)} pixels; the maximum is {MAX_ALL_PIXELS}.",
            "Scale them down first.",
        )
    decoded: list[Picture] = []
    for (name, data), size in zip(files, pixels, strict=True):
        share.take(size * DECODING_BYTES)
        decoded.append(decode_image(data, name))
        share.take(size * (PIXEL_BYTES - DECODING_BYTES))
    return RequestImages(tuple(decoded[: len(sources)]), decoded[-1] if masks else None)


@contextmanager
def _read() -> Iterator[None]:
    """Raise BadImage for an image inside the block that is invalid or too large."""
    try:
        yield
    except PictureError as error:
        raise BadImage(error.message, error.hint) from error


def pixels_in(data: bytes, where: str) -> int:
    """Return width times height from a file's header, without decoding it. Raises BadImage as it does."""
    with _read(), reading_image(io.BytesIO(data), where, MAX_SOURCE_PIXELS) as image:
        return image.size[0] * image.size[1]


def decode_image(data: bytes, where: str) -> Picture:
    """Decode an image file, or a mask: white where it is transparent, or else its brightness."""
    with _read():
        if where != MASK:
            return Picture.from_bytes(data, where, MAX_SOURCE_PIXELS)
        with reading_image(io.BytesIO(data), where, MAX_SOURCE_PIXELS) as image:
            return Picture(decoded_mask(image, where))


def file_in(text: str, where: str) -> bytes:
    """Decode base64.

    Raises:
        BadImage: The text is not base64.
    """
    if text.startswith("data:"):
        text = text.partition(",")[2]
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise BadImage(f"{where} is not valid base64 ({error}).") from error


Result = TypeVar("Result")

MODEL_HEADER = "serve-multiplexed-model-id"
"""Header in which clients of Ray Serve name a model."""
READERS = 4
MAX_FIELDS = 64


class ClientGone(ServiceError):
    """The client hung up."""

    status = 499


class WrongContentType(ServiceError):
    """The body has a content type that the route does not read."""

    status = 415


class RequestHandler:
    """Reads requests and generates their images, for one app. `ports` contains default models by port."""

    def __init__(self, front: Front, ports: dict[int, str] | None = None) -> None:
        self.front = front
        self._ports = ports or {}
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="read")

    async def json(self, request: Request, read: Callable[[bytes], Result]) -> Result:
        """Return the result of `read` for a JSON body.

        Raises:
            WrongContentType: The body is not JSON.
            ClientGone: The client hung up.
            ServiceError: Raised by `read`.
        """
        kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
        if kind != "application/json" and not kind.endswith("+json"):
            raise WrongContentType("The body must be JSON.", "Send Content-Type: application/json.")
        try:
            data = await request.body()
        except ClientDisconnect as error:
            raise ClientGone("The client hung up before its body arrived.") from error
        return await self.in_thread(read, data)

    async def form(self, request: Request) -> tuple[dict[str, str], dict[str, list[bytes]]]:
        """Return the fields of a form, and the files of each name.

        Raises:
            BadBody: The body is not a valid form.
            ClientGone: The client hung up.
        """
        try:
            form: FormData = await request.form(max_files=2 * MAX_IMAGES, max_fields=MAX_FIELDS)
        except ClientDisconnect as error:
            raise ClientGone("The client hung up before its body arrived.") from error
        except HTTPException as error:
            raise BadBody([fault("", f"invalid form ({error.detail})")]) from error
        fields: dict[str, str] = {}
        files: dict[str, list[bytes]] = {}
        try:
            for name, value in form.multi_items():
                if isinstance(value, UploadFile):
                    files.setdefault(name, []).append(await value.read())
                else:
                    fields[name] = value
        finally:
            await form.close()
        return fields, files

    def share(self, request: Request) -> RequestMemory:
        """Return the memory that the request has reserved."""
        return request.scope[SEEN]

    async def in_thread(self, work: Callable[..., Result], *values: Any) -> Result:
        """Run a slow function in a thread and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, work, *values)

    def model_of(self, request: Request, named: str | None) -> ModelInfo:
        """Return the model of a request, by its body, its header or its port, or else the first.

        Raises:
            UnknownModel: The named model is not served.
        """
        server = request.scope.get("server") or ("", 0)
        by_port = self._ports.get(server[1] or 0, "")
        return self.front.model(named or request.headers.get(MODEL_HEADER, "") or by_port)

    async def draw(
        self, request: Request, body: DrawBody, images: RequestImages, format: ImageFormat, number: int = 1
    ) -> list[GeneratedImage]:
        """Return `number` images with consecutive seeds.

        Raises:
            ServiceError: An image could not be generated.
        """
        info = self.model_of(request, body.model)
        seed = secrets.randbelow(RANDOM_SEEDS) if body.seed is None else body.seed
        asked = [
            ImageRequest(
                model=info.name,
                prompt=body.prompt,
                seed=seed + offset,
                negative=body.negative_prompt or None,
                sources=images.sources,
                mask=images.mask,
                size=body.pixels,
                steps=body.num_inference_steps,
                guidance=body.guidance_scale,
                format=format,
                client=request.client.host if request.client else "",
            )
            for offset in range(number)
        ]
        shared = body.seed is not None and "no-cache" not in request.headers.get("cache-control", "")
        drawn = await unless_gone(request, _all(self.front.draw(one, shared) for one in asked))
        if not body.unknown:
            return drawn
        return [replace(one, ignored=tuple(sorted({*one.ignored, *body.unknown}))) for one in drawn]


async def _all(draws: Any) -> list[GeneratedImage]:
    tasks = [asyncio.ensure_future(one) for one in draws]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


async def unless_gone(request: Request, work: Awaitable[Result]) -> Result:
    """Return the result of `work`, which is canceled if the client hangs up.

    Raises:
        ClientGone: The client hung up.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_hung_up(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone("The client hung up.")
        return task.result()
    finally:
        for one in (task, gone):
            one.cancel()
        await asyncio.wait({task, gone})


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
