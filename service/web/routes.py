"""The routes of the published services and of the Images API.

Field names, statuses and defaults of /generate, /edit, /fill, the same as forms, /health and /status are
those of the published services, so that their clients work unchanged. The published services answer 500 for
every failure. Here each reason has its own status, with the same body. The routes below /v1 are used by
OpenAI's SDK, Open WebUI and other clients, and share the queue. Images are returned only in base64: a service
that returns addresses has to store, expire and protect the files.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from ..pool import ImageFormat, WorkerState
from .bodies import (
    EditBody,
    FillBody,
    GenerateBody,
    ImagesBody,
    SizedBody,
    drawn_body,
    images_body,
    read_body,
    read_fields,
)
from .request_handler import RequestHandler, RequestImages, images_in, images_of

JSON = "application/json"
Format = Literal["png", "webp"]
LOADING_SECONDS = 10
"""Seconds after which a client should check again whether a model is loaded."""


def published_routes(handler: RequestHandler) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["published protocol"])

    @router.post("/generate", openapi_extra=_schema_of(GenerateBody), summary="Generate an image from text")
    async def generate(request: Request, format: Format = "png") -> Response:
        body = await handler.json(request, lambda data: read_body(GenerateBody, data))
        (drawn,) = await handler.draw(request, body, RequestImages(), format)
        said = {"enhanced_prompt": body.prompt, "model_type": handler.model_of(request, body.model).name}
        return Response(drawn_body(drawn, said, "image", "generation_time"), media_type=JSON)

    @router.post(
        "/edit", openapi_extra=_schema_of(EditBody), summary="Edit an image, or generate one from text"
    )
    async def edit(request: Request, format: Format = "png") -> Response:
        return await _from_json(handler, request, EditBody, "edited_image", format)

    @router.post("/fill", openapi_extra=_schema_of(FillBody), summary="Repaint the masked area of an image")
    async def fill(request: Request, format: Format = "png") -> Response:
        return await _from_json(handler, request, FillBody, "filled_image", format)

    @router.post("/edit-upload", openapi_extra=_takes_files("image_file"), summary="/edit as a form")
    async def edit_upload(request: Request, format: Format = "png") -> Response:
        return await _from_form(handler, request, "edited_image", format)

    @router.post(
        "/fill-upload", openapi_extra=_takes_files("image_file", "mask_file"), summary="/fill as a form"
    )
    async def fill_upload(request: Request, format: Format = "png") -> Response:
        return await _from_form(handler, request, "filled_image", format)

    @router.get("/health", summary="Health and identities of the models")
    async def health() -> JSONResponse:
        body = health_body(handler)
        pause = {"Retry-After": str(LOADING_SECONDS)} if body["status"] == "loading" else None
        return JSONResponse(body, status_code=200 if body["status"] == "healthy" else 503, headers=pause)

    @router.get("/status", summary="State of the queue and the workers")
    async def status() -> dict[str, Any]:
        return status_body(handler)

    return router


async def _from_json(
    handler: RequestHandler,
    request: Request,
    kind: type[EditBody] | type[FillBody],
    image: str,
    format: ImageFormat,
) -> Response:
    def read(data: bytes) -> tuple[EditBody | FillBody, RequestImages]:
        body = read_body(kind, data)
        images = images_in(body, handler.share(request))
        return body.model_copy(update={"image": None, "mask_image": None}), images

    return await _edited(handler, request, *await handler.json(request, read), image, format)


async def _from_form(handler: RequestHandler, request: Request, image: str, format: ImageFormat) -> Response:
    fields, files = await handler.form(request)
    body = read_fields(SizedBody, fields)
    sources, masks = files.get("image_file", []), files.get("mask_file", [])
    images = await handler.in_thread(images_of, sources, masks, handler.share(request))
    return await _edited(handler, request, body, images, image, format)


async def _edited(
    handler: RequestHandler,
    request: Request,
    body: SizedBody,
    images: RequestImages,
    image: str,
    format: ImageFormat,
) -> Response:
    """Return the answer with the generated image in the field `image`. Source images are not returned."""
    (drawn,) = await handler.draw(request, body, images, format)
    said = {
        "original_image": None,
        "original_prompt": body.prompt,
        "enhanced_prompt": body.prompt,
        "model_type": handler.model_of(request, body.model).name,
        **({"mask_image": None} if image == "filled_image" else {}),
    }
    return Response(drawn_body(drawn, said, image, "processing_time"), media_type=JSON)


def health_body(handler: RequestHandler) -> dict[str, Any]:
    """Return the answer of /health: as the published services, with the identities used as cache keys."""
    front = handler.front
    workers, models = front.pool.workers(), front.pool.models()
    phases = {phase: _number(workers, phase) for phase in ("alive", "loading", "dead")}
    state = "healthy" if phases["alive"] else "loading" if phases["loading"] else "unhealthy"
    return {
        "status": state,
        "gpu_manager_ready": phases["alive"] > 0,
        "timestamp": time.time(),
        "identity": front.identity(models[0]) or None,
        "models": {info.name: front.identity(info) or None for info in models},
        "workers": phases,
    }


def status_body(handler: RequestHandler) -> dict[str, Any]:
    """Return the answer of /status."""
    front = handler.front
    workers, models = front.pool.workers(), front.pool.models()
    queued = {info.name: front.pool.queued(info.name) for info in models}
    waiting = {info.name: front.places.waiting[info.name] for info in models}
    return {
        "active_workers": _number(workers, "alive"),
        "task_queue_size": sum(queued.values()),
        "result_queue_size": 0,
        "pending_tasks": front.under_way(),
        "total_gpus": len(workers),
        "system_ready": _number(workers, "alive") > 0,
        "model_type": models[0].name,
        "closing": front.closing,
        "queued": queued,
        "waiting_for_room": waiting,
        "kept_images": len(front.kept),
        "workers": [asdict(one) for one in workers],
    }


def _number(workers: Any, phase: str) -> int:
    return sum(worker.phase == phase for worker in list[WorkerState](workers))


def _schema_of(kind: type[SizedBody]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {JSON: {"schema": kind.model_json_schema()}}}}


def _takes_files(*names: str) -> dict[str, Any]:
    schema = SizedBody.model_json_schema()
    schema["properties"] |= {name: {"type": "string", "format": "binary"} for name in names}
    schema["required"] = [*schema.get("required", []), *names]
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}


IMAGE_FIELDS = ("image", "image[]")
MASK_FIELDS = ("mask", "mask_image")


def images_routes(handler: RequestHandler) -> APIRouter:
    """Return the routes."""
    router = APIRouter(prefix="/v1", tags=["Images API"])

    @router.post(
        "/images/generations", openapi_extra=_schema_for(JSON), summary="Generate an image from text"
    )
    async def generations(request: Request) -> Response:
        body = await handler.json(request, lambda data: read_body(ImagesBody, data))
        return await drawn(request, body, RequestImages())

    @router.post("/images/edits", openapi_extra=_schema_for("multipart/form-data"), summary="Edit images")
    async def edits(request: Request) -> Response:
        fields, files = await handler.form(request)
        body = read_fields(ImagesBody, fields)
        sources = [data for name in IMAGE_FIELDS for data in files.get(name, [])]
        masks = [data for name in MASK_FIELDS for data in files.get(name, [])]
        images = await handler.in_thread(images_of, sources, masks, handler.share(request))
        return await drawn(request, body, images)

    async def drawn(request: Request, body: ImagesBody, images: RequestImages) -> Response:
        answer = await handler.draw(request, body, images, body.output_format or "png", body.n or 1)
        return Response(images_body(answer), media_type=JSON)

    @router.get("/models", summary="List the models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [_described(one.name) for one in handler.front.pool.models()]}

    @router.get("/models/{name}", summary="Describe a model")
    async def model(name: str) -> dict[str, Any]:
        return _described(handler.front.model(name).name)

    return router


def _described(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "local"}


def _schema_for(kind: str) -> dict[str, Any]:
    schema = ImagesBody.model_json_schema()
    if kind != JSON:
        file = {"type": "string", "format": "binary"}
        schema["properties"] |= {"image": {"type": "array", "items": file}, "mask": file}
        schema["required"] = [*schema.get("required", []), "image"]
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema}}}}
