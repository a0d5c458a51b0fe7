"""The web app as a FastAPI app."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import FileResponse
from starlette.staticfiles import StaticFiles

from .admission import Admission
from .board import Board
from .routes import add_routes

PAGE = Path(__file__).with_name("page")
WEB = Path(__file__).parents[1] / "web"
"""The scripts, the style and the texts that the page shares with the nodes."""


def create_app(board: Board, listening: str, key: str | None = None) -> FastAPI:
    """Create the app of a board.

    Args:
        board: Generates the stories.
        listening: Address on which it will listen.
        key: Key that every request needs. None: no key.
    """
    app = FastAPI(title="InterleaveThinker", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.board = board
    add_routes(app, board)

    @app.get("/")
    async def page() -> FileResponse:
        return FileResponse(PAGE / "index.html", media_type="text/html")

    app.mount("/page", StaticFiles(directory=PAGE))
    app.mount("/web", StaticFiles(directory=WEB))
    app.add_middleware(Admission, listening=listening, key=key)  # type: ignore[arg-type]
    return app
