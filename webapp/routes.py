"""The routes of the page: JSON in and out through pydantic models, bounded in size and time.

Those of the live view are answered as in ComfyUI. Stories are exported into their run folders, and always
sent as files to save: a page that is opened in the browser would run with the rights of the app. `find` gives
each request the board it may reach. SECURITY.md lists every route with its reason.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, JSONResponse
from pydantic import BaseModel, ValidationError

from ..backend.core.errors import InterleaveError, SettingsError, first_fault
from ..backend.core.files.atomic import name_fault
from ..backend.output.exporters import EXPORTERS, export_by_name, options_of
from ..backend.output.exporters.export_files import write_whole, zipped
from ..backend.output.live import browser_requests
from ..backend.output.live.browser_requests import known_run
from ..backend.output.live.live_messages import EVENT
from ..backend.story.journal.run_files import RunFiles
from ..backend.story.loop.replay import load_trajectory
from . import requests
from .board import Board

PREFIX = f"/{EVENT}"
MAX_BODY = 256 * 1024
BODY_SECONDS = 10.0
UPLOADS = asyncio.Semaphore(8)
"""Requests whose body is larger than MAX_BODY and is being received."""
ANSWER_SECONDS = 60.0
EXPORT_SECONDS = 900.0
LOOKED_EVERY = 0.1
KEPT = "private, max-age=31536000, immutable"


EXPORTED = "exports"
"""Folder in a run folder with a folder for each format, which contains one file."""

Find = Callable[[Request], Board]
"""Returns the board of a request. Raises Refused if there is none."""


@dataclass(frozen=True)
class Route:
    """A route: `answer` receives the board and the query (GET) or body (POST) in a thread, after `wait`."""

    method: str
    name: str
    model: type[BaseModel]
    answer: Callable[[Board, Any], BaseModel | Response]
    seconds: float = ANSWER_SECONDS
    wait: Callable[[Board, Any], Awaitable[None]] | None = None
    most: int = MAX_BODY


def add_routes(app: FastAPI, find: Find) -> None:
    """Add the routes of the page to the app."""
    for route in _table():
        app.add_api_route(f"{PREFIX}/{route.name}", _handler(route, find), methods=[route.method])


def _table() -> list[Route]:
    exporting = threading.Lock()

    async def news(board: Board, asked: requests.AskBoard) -> None:
        until = time.monotonic() + asked.wait
        while asked.seen == board.edition and time.monotonic() < until and not board.closing:
            await asyncio.sleep(LOOKED_EVERY)

    def page(board: Board, asked: requests.AskPage) -> requests.PageShown:
        public = board.public
        return requests.PageShown(
            models=board.models.offered(),
            exports=[name for name in EXPORTERS.names if name != "mp4" or find_spec("av") is not None],
            settings=requests.form_fields(board.settings, board.constraints, public),
            example=board.models.example,
            command="" if public.public else board.models.command,
            minutes=max(1, round(public.stay / 60)) if public.public else 0,
        )

    def thumbnail(board: Board, asked: browser_requests.AskThumbnail) -> Response:
        return _kept(asked.webp(board.runs), "image/webp")

    def picture(board: Board, asked: requests.AskPicture) -> Response:
        found = RunFiles(known_run(board.runs, asked.run)).read_picture(asked.picture)
        if found is None:
            raise SettingsError(f"The image {asked.picture!r} was not found.", "Run the story again.")
        return _kept(found.png(), "image/png")

    def export(board: Board, asked: requests.AskExport) -> requests.Exported:
        folder = known_run(board.runs, asked.run)
        if not exporting.acquire(blocking=False):
            raise requests.Refused(409, "Another export is being written. Wait until it is finished.")
        try:
            path = _exported(folder, asked)
            return requests.Exported(name=path.name, bytes=path.stat().st_size)
        finally:
            exporting.release()

    def file(board: Board, asked: requests.AskExport) -> Response:
        folder = _place(known_run(board.runs, asked.run), asked.to)
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.is_file() and not path.is_symlink():
                return FileResponse(path, media_type="application/octet-stream", filename=path.name)
        raise SettingsError(f"There is no export {asked.to!r} of the run {asked.run!r}.", "Export it first.")

    return [
        Route("GET", "page", requests.AskPage, page),
        Route("GET", "board", requests.AskBoard, Board.shown, wait=news),
        Route("POST", "story", requests.StoryForm, Board.start, most=requests.MAX_UPLOAD),
        Route("POST", "again", requests.AskAgain, Board.resume),
        Route("POST", "cancel", requests.AskCancel, Board.cancel),
        Route("GET", "plan", requests.AskPlan, Board.plan),
        Route("POST", "plan", requests.AskEdit, Board.edit),
        Route("GET", "picture", requests.AskPicture, picture),
        Route("POST", "export", requests.AskExport, export, EXPORT_SECONDS),
        Route("GET", "export", requests.AskExport, file),
        Route("GET", "thumbnail", browser_requests.AskThumbnail, thumbnail),
        *(Route(*one, lambda board, asked: asked.answer(board.runs)) for one in browser_requests.RUN_ROUTES),
    ]


def _place(run: Path, name: str) -> Path:
    """Return the folder of an export in the folder of a run.

    Raises:
        SettingsError: The format is unknown, or the folder is a link.
    """
    place = run / EXPORTED / name
    if name not in EXPORTERS.names or name_fault(name) or place.is_symlink() or place.parent.is_symlink():
        raise SettingsError(f"There is no export {name[:40]!r}.", "Choose one that the page offers.")
    return place


def _exported(folder: Path, asked: requests.AskExport) -> Path:
    """Export a run into its folder, several files as one archive, and return the file."""
    trajectory, place = load_trajectory(folder), _place(folder, asked.to)
    title = {"title": asked.title} if asked.title and "title" in options_of(asked.to) else {}
    with tempfile.TemporaryDirectory() as made:
        main = export_by_name(asked.to, trajectory, made, **title)
        paths = [path for path in sorted(Path(made).rglob("*")) if path.is_file()]
        name, content = main.name, main.read_bytes()
        if len(paths) > 1:
            packed = {path.relative_to(made).as_posix(): path.read_bytes() for path in paths}
            name, content = f"{asked.to}.zip", zipped(packed)
    return write_whole(place / name, content)


def _handler(route: Route, find: Find) -> Callable[[Request], Awaitable[Response]]:
    """Return the handler of a route. It answers errors as one line in `error`."""

    async def handle(request: Request) -> Response:
        try:
            board = find(request)
            given = await _given(request, route)
            if route.wait is not None:
                await route.wait(board, given)
            answer = await asyncio.wait_for(asyncio.to_thread(route.answer, board, given), route.seconds)
        except ValidationError as error:
            fault = first_fault(error)
            return refused(400, f"{fault.place or 'request'}: {fault.reason}")
        except asyncio.TimeoutError:
            return refused(504, "The answer took too long. Try again.")
        except requests.Refused as error:
            return refused(error.status, str(error), ", ".join(error.unknown))
        except InterleaveError as error:
            return refused(404 if request.method == "GET" else 400, str(error))
        return answer if isinstance(answer, Response) else _json(answer)

    return handle


async def _given(request: Request, route: Route) -> Any:
    if request.method == "GET":
        return route.model.model_validate(dict(request.query_params))
    if request.headers.get("Content-Type", "").partition(";")[0].strip() != "application/json":
        raise requests.Refused(415, "The body must be application/json.")
    try:
        body = await asyncio.wait_for(_body(request, route.most), BODY_SECONDS)
    except asyncio.TimeoutError as error:
        raise requests.Refused(408, f"The body did not arrive within {BODY_SECONDS:g} s.") from error
    return route.model.model_validate_json(body)


async def _body(request: Request, most: int) -> bytes:
    body, is_large = bytearray(), False
    async with AsyncExitStack() as held:
        async for part in request.stream():
            body += part
            if len(body) > most:
                raise requests.Refused(413, f"The body is larger than {most // 1024} KB, the maximum.")
            if len(body) > MAX_BODY and not is_large:
                is_large = True
                await held.enter_async_context(UPLOADS)
    return bytes(body)


def _json(answer: BaseModel) -> Response:
    headers = {"Cache-Control": "no-store"}
    return Response(answer.model_dump_json(), media_type="application/json", headers=headers)


def _kept(data: bytes, kind: str) -> Response:
    return Response(data, media_type=kind, headers={"Cache-Control": KEPT})


def refused(status: int, message: str, unknown: str = "") -> JSONResponse:
    """Return an error as the page reads it, with the words that the planner does not know."""
    return JSONResponse({"error": message, "unknown": unknown}, status_code=status)
