"""The service's one ASGI app: every route of the published services and of the Images API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .pool import Pool
from .settings import ServiceSettings

if TYPE_CHECKING:
    from fastapi import FastAPI


def create_app(pool: Pool, settings: ServiceSettings) -> FastAPI:
    """The app over a pool, which it starts and closes with its own life. Nothing is started by making it."""
    from contextlib import asynccontextmanager

    from fastapi import FastAPI

    @asynccontextmanager
    async def life(app: FastAPI):  # type: ignore[no-untyped-def]
        await pool.start()
        try:
            yield
        finally:
            await pool.close()

    return FastAPI(title="Image models as a service", lifespan=life)
