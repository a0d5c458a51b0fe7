"""The Images API: /v1/images/generations, /v1/images/edits and /v1/models, for OpenAI's SDK, Open WebUI and
whoever else speaks it.

Decision: the same queue as the published routes. An image comes back in base64 only: a service that hands out
addresses has to store, expire and guard what lies there.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from .answers import images_body
from .asking import Asking
from .bodies import ImagesBody, read_body, read_fields
from .images_sent import Images, images_of

JSON = "application/json"
IMAGE_FIELDS = ("image", "image[]")
MASK_FIELDS = ("mask", "mask_image")


def images_routes(asking: Asking) -> APIRouter:
    """The routes, over what they ask with."""
    router = APIRouter(prefix="/v1", tags=["Images API"])

    @router.post("/images/generations", openapi_extra=_takes(JSON), summary="Draw from text")
    async def generations(request: Request) -> Response:
        body = await asking.json(request, lambda data: read_body(ImagesBody, data))
        return await drawn(request, body, Images())

    @router.post("/images/edits", openapi_extra=_takes("multipart/form-data"), summary="Edit images")
    async def edits(request: Request) -> Response:
        fields, files = await asking.form(request)
        body = read_fields(ImagesBody, fields)
        sources = [data for name in IMAGE_FIELDS for data in files.get(name, [])]
        masks = [data for name in MASK_FIELDS for data in files.get(name, [])]
        return await drawn(
            request, body, await asking.in_thread(images_of, sources, masks, asking.share(request))
        )

    async def drawn(request: Request, body: ImagesBody, images: Images) -> Response:
        kind = body.output_format or "png"
        return Response(
            images_body(await asking.draw(request, body, images, kind, body.n or 1)), media_type=JSON
        )

    @router.get("/models", summary="The models in the form of the API")
    async def models() -> dict[str, Any]:
        served = asking.front.pool.models()
        data = [{"id": one.name, "object": "model", "created": 0, "owned_by": "local"} for one in served]
        return {"object": "list", "data": data}

    return router


def _takes(kind: str) -> dict[str, Any]:
    schema = ImagesBody.model_json_schema()
    if kind != JSON:
        file = {"type": "string", "format": "binary"}
        schema["properties"] |= {"image": {"type": "array", "items": file}, "mask": file}
        schema["required"] = [*schema.get("required", []), "image"]
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema}}}}
