"""The routes of the page: JSON in and out through pydantic models, bounded in size and time.

Those of the live view are the functions that answer it in ComfyUI. SECURITY.md lists every route with its
reason.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, JSONResponse
from pydantic import BaseModel, ValidationError

from ..backend.core.errors import InterleaveError, SettingsError, first_fault
from ..backend.output.feedback import browser_requests as requests
from ..backend.output.feedback.browser_requests import known_run
from ..backend.output.feedback.live_messages import EVENT
from ..backend.story.journal.run_files import RunFiles
from .board import Board, StoryUnderWay
from .exports import FILES, Exports, ExportUnderWay
from .requests import (
    AskAgain,
    AskBoard,
    AskCancel,
    AskExport,
    AskPage,
    AskPicture,
    PageShown,
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


class BadRequest(InterleaveError):
    """A request that cannot be read. `status` is its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Route:
    """A route: `answer` receives the validated query (GET) or body (POST) in a thread."""

    method: str
    path: str
    model: type[BaseModel]
    answer: Callable[[Any], BaseModel | Response]
    seconds: float = ANSWER_SECONDS


def add_routes(app: FastAPI, board: Board) -> None:
    """Add the routes of the page to the app."""
    for route in _table(board, Exports(board.runs)):
        app.add_api_route(route.path, _handler(route), methods=[route.method])

    async def shown(request: Request) -> Response:
        asked = await _given(request, AskBoard)
        until = time.monotonic() + asked.wait
        while asked.seen == board.edition and time.monotonic() < until and not board.closing:
            await asyncio.sleep(LOOKED_EVERY)
        return _json(await asyncio.wait_for(asyncio.to_thread(board.shown, asked), ANSWER_SECONDS))

    app.add_api_route(f"{PREFIX}/board", _refusing(shown), methods=["GET"])


def _table(board: Board, exports: Exports) -> list[Route]:
    runs = board.runs

    def of_runs(answer: Callable[[Path, Any], BaseModel]) -> Callable[[Any], BaseModel]:
        return partial(answer, runs)

    def page(asked: AskPage) -> PageShown:
        return PageShown(
            models=board.models.offered(),
            exports=exports.offered(),
            settings=form_fields(board.settings),
            example=board.models.example,
        )

    def thumbnail(asked: requests.AskThumbnail) -> Response:
        return _kept(requests.thumbnail_of(runs, asked), "image/webp")

    def picture(asked: AskPicture) -> Response:
        found = RunFiles(known_run(runs, asked.run)).read_picture(asked.picture)
        if found is None:
            raise SettingsError(f"The image {asked.picture!r} was not found.", "Run the story again.")
        return _kept(found.png(), "image/png")

    def file(asked: AskExport) -> Response:
        path, kind = exports.file(asked), FILES[asked.to][1]
        return FileResponse(path, media_type=kind, filename=path.name)

    return [
        Route("GET", f"{PREFIX}/page", AskPage, page),
        Route("POST", f"{PREFIX}/story", StoryForm, board.start),
        Route("POST", f"{PREFIX}/again", AskAgain, board.resume),
        Route("POST", f"{PREFIX}/cancel", AskCancel, board.cancel),
        Route("GET", f"{PREFIX}/picture", AskPicture, picture),
        Route("POST", f"{PREFIX}/export", AskExport, exports.write, EXPORT_SECONDS),
        Route("GET", f"{PREFIX}/export", AskExport, file),
        Route("GET", f"{PREFIX}/run", requests.AskRun, of_runs(requests.run_state)),
        Route("GET", f"{PREFIX}/stories", requests.AskStories, of_runs(requests.stories)),
        Route("POST", f"{PREFIX}/delete-story", requests.AskDelete, of_runs(requests.delete_story)),
        Route("GET", f"{PREFIX}/thumbnail", requests.AskThumbnail, thumbnail),
        Route("POST", f"{PREFIX}/choice", requests.AskChoice, of_runs(requests.note_choice)),
        Route("POST", f"{PREFIX}/redraw", requests.AskRedraw, of_runs(requests.note_redraw)),
        Route("POST", f"{PREFIX}/decision", requests.AskDecision, of_runs(requests.note_decision)),
        Route("POST", f"{PREFIX}/feedback", requests.AskFeedback, of_runs(requests.note_feedback)),
    ]


def _handler(route: Route) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        given = await _given(request, route.model)
        answer = await asyncio.wait_for(asyncio.to_thread(route.answer, given), route.seconds)
        return answer if isinstance(answer, Response) else _json(answer)

    return _refusing(handle)


def _refusing(handle: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Return a handler that answers errors as one line in `error`."""

    async def handle_or_refuse(request: Request) -> Response:
        try:
            return await handle(request)
        except ValidationError as error:
            fault = first_fault(error)
            return refused(400, f"{fault.place or 'request'}: {fault.reason}")
        except asyncio.TimeoutError:
            return refused(504, "The answer took too long. Try again.")
        except BadRequest as error:
            return refused(error.status, str(error))
        except (StoryUnderWay, ExportUnderWay) as error:
            return refused(409, str(error))
        except InterleaveError as error:
            return refused(404 if request.method == "GET" else 400, str(error))

    return handle_or_refuse


async def _given(request: Request, model: type[Any]) -> Any:
    if request.method == "GET":
        return model.model_validate(dict(request.query_params))
    if request.headers.get("Content-Type", "").partition(";")[0].strip() != "application/json":
        raise BadRequest(415, "The body must be application/json.")
    try:
        body = await asyncio.wait_for(_body(request), BODY_SECONDS)
    except asyncio.TimeoutError as error:
        raise BadRequest(408, f"The body did not arrive within {BODY_SECONDS:g} s.") from error
    return model.model_validate_json(body)


async def _body(request: Request) -> bytes:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY:
            raise BadRequest(413, f"The body is larger than {MAX_BODY // 1024} KB, the maximum.")
    return body


def _json(answer: BaseModel) -> Response:
    headers = {"Cache-Control": "no-store"}
    return Response(answer.model_dump_json(), media_type="application/json", headers=headers)


def _kept(data: bytes, kind: str) -> Response:
    return Response(data, media_type=kind, headers={"Cache-Control": KEPT})


def refused(status: int, message: str) -> JSONResponse:
    """Return an error as the page reads it."""
    return JSONResponse({"error": message}, status_code=status)
