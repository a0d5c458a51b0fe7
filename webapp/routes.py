"""The routes of the page: JSON in and out through pydantic models, bounded in size and time.

Those of the live view are answered as in ComfyUI. Stories are exported into their run folders, and always
sent as files to save: a page that is opened in the browser would run with the rights of the app. SECURITY.md
lists every route with its reason.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, JSONResponse
from pydantic import BaseModel, ValidationError

from ..backend.core.errors import InterleaveError, SettingsError, first_fault
from ..backend.output.exporters import export_by_name
from ..backend.output.exporters.export_files import write_whole, zipped
from ..backend.output.live import browser_requests as requests
from ..backend.output.live.browser_requests import known_run
from ..backend.output.live.live_messages import EVENT
from ..backend.story.journal.run_files import RunFiles
from ..backend.story.loop.replay import load_trajectory
from .board import Board
from .requests import (
    EXPORTS,
    AskAgain,
    AskBoard,
    AskCancel,
    AskExport,
    AskPage,
    AskPicture,
    Exported,
    ExportName,
    PageShown,
    Refused,
    StoryForm,
    form_fields,
)

PREFIX = f"/{EVENT}"
MAX_BODY = 256 * 1024
BODY_SECONDS = 10.0
ANSWER_SECONDS = 60.0
EXPORT_SECONDS = 900.0
LOOKED_EVERY = 0.1
KEPT = "private, max-age=31536000, immutable"


@dataclass(frozen=True)
class Route:
    """A route: `answer` receives the validated query (GET) or body (POST) in a thread, after `wait`."""

    method: str
    name: str
    model: type[BaseModel]
    answer: Callable[[Any], BaseModel | Response]
    seconds: float = ANSWER_SECONDS
    wait: Callable[[Any], Awaitable[None]] | None = None


def add_routes(app: FastAPI, board: Board) -> None:
    """Add the routes of the page to the app."""
    for route in _table(board):
        app.add_api_route(f"{PREFIX}/{route.name}", _handler(route), methods=[route.method])


def _table(board: Board) -> list[Route]:
    runs, exporting = board.runs, threading.Lock()

    async def news(asked: AskBoard) -> None:
        until = time.monotonic() + asked.wait
        while asked.seen == board.edition and time.monotonic() < until and not board.closing:
            await asyncio.sleep(LOOKED_EVERY)

    def page(asked: AskPage) -> PageShown:
        return PageShown(
            models=board.models.offered(),
            exports=[name for name in EXPORTS if name != "mp4" or find_spec("av") is not None],
            settings=form_fields(board.settings),
            example=board.models.example,
        )

    def thumbnail(asked: requests.AskThumbnail) -> Response:
        return _kept(asked.webp(runs), "image/webp")

    def picture(asked: AskPicture) -> Response:
        found = RunFiles(known_run(runs, asked.run)).read_picture(asked.picture)
        if found is None:
            raise SettingsError(f"The image {asked.picture!r} was not found.", "Run the story again.")
        return _kept(found.png(), "image/png")

    def export(asked: AskExport) -> Exported:
        folder = known_run(runs, asked.run)
        if not exporting.acquire(blocking=False):
            raise Refused(409, "Another export is being written. Wait until it is finished.")
        try:
            path = _exported(folder, asked.to)
            return Exported(name=path.name, bytes=path.stat().st_size)
        finally:
            exporting.release()

    def file(asked: AskExport) -> Response:
        name, kind = EXPORTS[asked.to]
        path = known_run(runs, asked.run) / name
        if path.is_symlink() or not path.is_file():
            raise SettingsError(f"{name} of the run {asked.run!r} does not exist.", "Export it first.")
        return FileResponse(path, media_type=kind, filename=name)

    return [
        Route("GET", "page", AskPage, page),
        Route("GET", "board", AskBoard, board.shown, wait=news),
        Route("POST", "story", StoryForm, board.start),
        Route("POST", "again", AskAgain, board.resume),
        Route("POST", "cancel", AskCancel, board.cancel),
        Route("GET", "picture", AskPicture, picture),
        Route("POST", "export", AskExport, export, EXPORT_SECONDS),
        Route("GET", "export", AskExport, file),
        Route("GET", "thumbnail", requests.AskThumbnail, thumbnail),
        *(Route(*one, lambda asked: asked.answer(runs)) for one in requests.RUN_ROUTES),
    ]


def _exported(folder: Path, name: ExportName) -> Path:
    """Export a run into its folder, Markdown with its images as one archive, and return the file."""
    trajectory = load_trajectory(folder)
    if name != "markdown":
        return export_by_name(name, trajectory, folder)
    with tempfile.TemporaryDirectory() as made:
        export_by_name(name, trajectory, made)
        paths = [path for path in sorted(Path(made).rglob("*")) if path.is_file()]
        packed = zipped({path.relative_to(made).as_posix(): path.read_bytes() for path in paths})
    return write_whole(folder / EXPORTS[name][0], packed)


def _handler(route: Route) -> Callable[[Request], Awaitable[Response]]:
    """Return the handler of a route. It answers errors as one line in `error`."""

    async def handle(request: Request) -> Response:
        try:
            given = await _given(request, route.model)
            if route.wait is not None:
                await route.wait(given)
            answer = await asyncio.wait_for(asyncio.to_thread(route.answer, given), route.seconds)
        except ValidationError as error:
            fault = first_fault(error)
            return refused(400, f"{fault.place or 'request'}: {fault.reason}")
        except asyncio.TimeoutError:
            return refused(504, "The answer took too long. Try again.")
        except Refused as error:
            return refused(error.status, str(error))
        except InterleaveError as error:
            return refused(404 if request.method == "GET" else 400, str(error))
        return answer if isinstance(answer, Response) else _json(answer)

    return handle


async def _given(request: Request, model: type[Any]) -> Any:
    if request.method == "GET":
        return model.model_validate(dict(request.query_params))
    if request.headers.get("Content-Type", "").partition(";")[0].strip() != "application/json":
        raise Refused(415, "The body must be application/json.")
    try:
        body = await asyncio.wait_for(_body(request), BODY_SECONDS)
    except asyncio.TimeoutError as error:
        raise Refused(408, f"The body did not arrive within {BODY_SECONDS:g} s.") from error
    return model.model_validate_json(body)


async def _body(request: Request) -> bytes:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY:
            raise Refused(413, f"The body is larger than {MAX_BODY // 1024} KB, the maximum.")
    return body


def _json(answer: BaseModel) -> Response:
    headers = {"Cache-Control": "no-store"}
    return Response(answer.model_dump_json(), media_type="application/json", headers=headers)


def _kept(data: bytes, kind: str) -> Response:
    return Response(data, media_type=kind, headers={"Cache-Control": KEPT})


def refused(status: int, message: str) -> JSONResponse:
    """Return an error as the page reads it."""
    return JSONResponse({"error": message}, status_code=status)
