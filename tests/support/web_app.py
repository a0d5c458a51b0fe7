"""The web app with models that need no weights, in this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.cli_calls import verdict_reply
from support.served_app import running
from support.small_agents import STORY, Counting

from interleave_thinker import Critic, Generator, PlanConstraints, Planner, RunSettings, SettingsError
from interleave_thinker.backend.core.answers.reading import write_plan
from interleave_thinker.backend.models.chat.scripted import ScriptedChat
from interleave_thinker.webapp.models import Chosen, Example, Offer, Role
from interleave_thinker.webapp.requests import Refused

CHOSEN = {"planner": "small", "critic": "small", "generator": "small"}
SECONDS = 60.0


class SmallModels:
    """A plan of three images, of which the critic rejects the first attempt. Also the opened models.

    `log` gets a line per image that is generated; each takes `seconds`.
    """

    def __init__(self, log: Path, seconds: float = 0.0) -> None:
        self.log, self.seconds = log, seconds
        self.example = Example(request="A house, the sun and a boat.", seed=7)
        self.command = "interleave-thinker app --planner transformers:FOLDER"

    def offered(self) -> dict[Role, list[Offer]]:
        return {role: [Offer(name="small", label="Small")] for role in ("planner", "critic", "generator")}

    def check(self, chosen: Chosen, request: str) -> None:
        if chosen != Chosen(**CHOSEN):
            raise SettingsError("The model is not offered.")
        if "dragon" in request:
            raise Refused(400, "The planner does not know a word.", unknown=["dragon"])

    def open(self, chosen: Chosen) -> SmallModels:
        return self

    def planner(self, on_part: Callable[[str], None]) -> Planner:
        return Planner(ScriptedChat([write_plan(STORY)]))

    def critic(self) -> Critic | None:
        verdicts = [verdict_reply(False, "better"), *[verdict_reply(True)] * 50]
        return Critic(ScriptedChat(verdicts))

    def generator(self) -> Generator:
        return Counting(self.log, self.seconds)

    @property
    def drawn(self) -> list[str]:
        """A line for each image that was generated."""
        return self.log.read_text().splitlines() if self.log.exists() else []


def app_of(folder: Path, models: SmallModels | None = None, **given: Any) -> Any:
    """Return the app with its runs in `folder`/runs; with the limits `public`, of each visitor."""
    from interleave_thinker.webapp.app import create_app
    from interleave_thinker.webapp.board import Board
    from interleave_thinker.webapp.visitors import Visitors

    models, public = models or SmallModels(folder / "drawn.log"), given.pop("public", None)
    boards: Any = Board(folder / "runs", models)
    if public:
        boards = Visitors(folder / "runs", models, RunSettings(), PlanConstraints(), public)
    return create_app(boards, **{"listening": "127.0.0.1", **given})


@contextmanager
def served(folder: Path, models: SmallModels | None = None, **given: Any) -> Iterator[str]:
    """Yield the URL of the app on its own server while the block runs."""
    from interleave_thinker.service.settings import ServiceSettings
    from interleave_thinker.service.web.server import DrainingServer, Work, server_config

    app = app_of(folder, models, **given)
    config = server_config(app, ServiceSettings(), timeout_graceful_shutdown=1)
    boards = app.state.boards
    with running(DrainingServer(config, Work(boards.close, lambda: int(boards.busy)), grace=1)) as url:
        yield url


class Client:
    """A program in place of the page."""

    def __init__(self, http: Any) -> None:
        self.http = http

    def get(self, name: str, **query: Any) -> Any:
        return self.http.get(f"/interleave-thinker/{name}", params=query)

    def post(self, name: str, **body: Any) -> Any:
        return self.http.post(f"/interleave-thinker/{name}", json=body)

    def start(self, request: str = "A house, the sun and a boat.", **body: Any) -> str:
        """Start a story and return its name."""
        answer = self.post("story", request=request, models=CHOSEN, **body)
        assert answer.status_code == 200, answer.text
        return answer.json()["run"]

    def wait_for_an_image(self, models: SmallModels) -> None:
        """Return when the first image was generated."""
        until = time.monotonic() + SECONDS
        while not models.drawn:
            assert time.monotonic() < until, self.get("board").json()
            time.sleep(0.02)

    def ended(self) -> dict[str, Any]:
        """Return the board when no story is being generated."""
        until = time.monotonic() + SECONDS
        while (board := self.get("board").json())["busy"]:
            assert time.monotonic() < until, board
            time.sleep(0.02)
        return board

    def about(self) -> dict[str, Any]:
        """Return the message about the whole run, when it has ended."""
        return next(
            one["shown"] for one in self.ended()["state"]["messages"] if one["shown"]["kind"] == "run"
        )
