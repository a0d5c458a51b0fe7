"""The service's ASGI app: all routes of the published services and of the Images API, for any pool.

It uses FastAPI for `/docs` and `/openapi.json`, which the published services have, and because Ray Serve can
mount it. bodies.py reads the bodies itself, off the event loop and with limits.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from ...backend.core.errors import InterleaveError
from ...backend.core.remote.addresses import THIS_MACHINE
from ...backend.core.remote.api_keys import check_variable, read_key
from ..front import Front
from ..pool import Pool, ServiceError
from ..settings import ServiceSettings
from .bodies import BadBody, error_body, error_headers, status_of
from .request_handler import RequestHandler
from .request_limits import RequestLimitsMiddleware
from .routes import images_routes, published_routes


class Crash(ServiceError):
    """An error of this program itself."""

    status = 500


class NoRoute(ServiceError):
    """The path does not exist, or not for this method."""

    def __init__(self, method: str, path: str, status: int) -> None:
        super().__init__(f"Unknown route {method[:20]} {path[:100]}.", "See /docs for all routes.")
        self.status = status


def create_app(pool: Pool, settings: ServiceSettings, ports: dict[int, str] | None = None) -> FastAPI:
    """Create the app of a pool, which starts and ends with the app.

    `app.state.front` contains what the routes share.

    Args:
        pool: The workers.
        settings: Settings of the service.
        ports: Default models by port.

    Raises:
        SettingsError: The API key is invalid.
    """
    check_variable(settings.key_env)
    key = read_key(settings.key_env) if settings.key_env else None
    front = Front(pool, settings)
    handler = RequestHandler(front, ports)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        await pool.start()
        try:
            yield
        finally:
            front.close()
            await pool.close()

    app = FastAPI(title="Image models as a service", lifespan=life, redoc_url=None)
    app.state.front = front
    app.include_router(published_routes(handler))
    app.include_router(images_routes(handler))

    @app.get("/", summary="Name of the service")
    async def root() -> dict[str, str]:
        return {"message": "Image models as a service; see /docs for the routes.", "status": "running"}

    @app.get("/ready", summary="For load balancers: 200 if requests are processed")
    async def ready() -> JSONResponse:
        alive = any(worker.phase == "alive" for worker in pool.workers())
        well = alive and not front.closing
        return JSONResponse({"ready": well}, status_code=200 if well else 503)

    @app.exception_handler(InterleaveError)
    async def refused(request: Request, error: InterleaveError) -> JSONResponse:
        known = error if isinstance(error, ServiceError) else Crash(error.message, error.hint)
        path = request.url.path
        return JSONResponse(error_body(path, known), status_of(path, known), error_headers(known))

    @app.exception_handler(HTTPException)
    async def unrouted(request: Request, error: HTTPException) -> JSONResponse:
        known = NoRoute(request.method, request.url.path, error.status_code)
        answer = await refused(request, known)
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(Exception)
    async def broken(request: Request, error: Exception) -> JSONResponse:
        # uvicorn logs the details. The client only learns that the error is the service's.
        return await refused(request, Crash("The service failed to process this request; see its log."))

    @app.exception_handler(RequestValidationError)
    async def misread(request: Request, error: RequestValidationError) -> JSONResponse:
        faults = [{**one, "input": None, "ctx": None} for one in error.errors()]
        return await refused(request, BadBody(faults))

    local = settings.host in THIS_MACHINE and not settings.open
    app.add_middleware(RequestLimitsMiddleware, front=front, key=key, local_only=local)  # type: ignore[arg-type]
    return app
