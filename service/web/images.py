"""The routes of the Images API: /v1/images/generations, /v1/images/edits and /v1/models.

They are used by OpenAI's SDK, Open WebUI and other clients, and share the queue with the published routes.
Images are returned only in base64: a service that returns addresses has to store, expire and protect the
files.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from .answers import images_body, images_events
from .bodies import ImagesBody, read_body, read_fields
from .request_handler import RequestHandler
from .request_images import RequestImages, images_of

JSON, EVENTS = "application/json", "text/event-stream"
IMAGE_FIELDS = ("image", "image[]")
MASK_FIELDS = ("mask", "mask_image")


def images_routes(handler: RequestHandler) -> APIRouter:
    """Return the routes."""
    router = APIRouter(prefix="/v1", tags=["Images API"])

    @router.post("/images/generations", openapi_extra=_takes(JSON), summary="Generate an image from text")
    async def generations(request: Request) -> Response:
        body = await handler.json(request, lambda data: read_body(ImagesBody, data))
        return await drawn(request, body, RequestImages(), "image_generation")

    @router.post("/images/edits", openapi_extra=_takes("multipart/form-data"), summary="Edit images")
    async def edits(request: Request) -> Response:
        fields, files = await handler.form(request)
        body = read_fields(ImagesBody, fields)
        sources = [data for name in IMAGE_FIELDS for data in files.get(name, [])]
        masks = [data for name in MASK_FIELDS for data in files.get(name, [])]
        images = await handler.in_thread(images_of, sources, masks, handler.share(request))
        return await drawn(request, body, images, "image_edit")

    async def drawn(request: Request, body: ImagesBody, images: RequestImages, event: str) -> Response:
        kind = body.output_format or "png"
        answer = await handler.draw(request, body, images, kind, body.n or 1)
        if body.stream:
            return Response(images_events(answer, event, kind), media_type=EVENTS)
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


def _takes(kind: str) -> dict[str, Any]:
    schema = ImagesBody.model_json_schema()
    if kind != JSON:
        file = {"type": "string", "format": "binary"}
        schema["properties"] |= {"image": {"type": "array", "items": file}, "mask": file}
        schema["required"] = [*schema.get("required", []), "image"]
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema}}}}
