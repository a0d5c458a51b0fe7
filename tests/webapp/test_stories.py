"""Stories of the web app over HTTP: start, pause, decide, cancel, continue, export."""

from __future__ import annotations

import json
import threading
import zipfile
from collections.abc import Iterator
from io import BytesIO
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image

pytest.importorskip("fastapi", reason="the extra 'app' is not installed")

from starlette.testclient import TestClient
from support.web_app import CHOSEN, Client, SmallModels, app_of

from interleave_thinker import Picture, load_trajectory
from interleave_thinker.backend.output.exporters import EXPORTERS
from interleave_thinker.webapp import board as boards
from interleave_thinker.webapp import routes

STEPS = 4
IMAGES = 3
RED = Picture(Image.new("RGB", (32, 32), "red"))
BOMB = Picture(Image.new("RGB", (2100, 2000))).base64_png()


@pytest.fixture
def models(tmp_path: Path) -> SmallModels:
    return SmallModels(tmp_path / "drawn.log")


@pytest.fixture
def client(tmp_path: Path, models: SmallModels) -> Iterator[Client]:
    with TestClient(app_of(tmp_path, models), base_url="http://127.0.0.1") as http:
        yield Client(http)


def shown(board: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [one["shown"] for one in board["state"]["messages"] if one["shown"]["kind"] == kind]


def test_a_story_is_generated_judged_listed_and_shown_again(client: Client, tmp_path: Path) -> None:
    run = client.start()
    board = client.ended()
    assert (board["run"], board["error"], board["busy"]) == (run, "", False)
    assert shown(board, "run")[0]["status"] == "finished"
    first = [one for one in shown(board, "attempt") if one["step"] == 1]
    assert [one["outcome"] for one in first] == ["rejected", "accepted"] and first[1]["reasoning"] == "looked"
    again = client.get("run", run=run).json()["messages"]
    assert sorted(one["shown"]["kind"] for one in again) == sorted(
        one["shown"]["kind"] for one in board["state"]["messages"]
    )
    (line,) = client.get("stories").json()["stories"]
    assert (line["run"], line["steps"], line["incomplete_steps"]) == (run, STEPS, 0)
    digest = first[1]["image"]["digest"]
    whole = client.get("picture", run=run, picture=digest)
    assert Picture.from_bytes(whole.content).digest == digest and whole.headers["Content-Type"] == "image/png"
    small = client.get("thumbnail", run=run, picture=digest, size=256)
    assert small.headers["Content-Type"] == "image/webp" and "immutable" in small.headers["Cache-Control"]
    assert client.get("picture", run=run, picture="0" * len(digest)).status_code == 404
    assert (tmp_path / "runs" / run / boards.MODELS).is_file()


def test_the_page_gets_what_it_can_choose(client: Client) -> None:
    answer = client.get("page")
    page = answer.json()
    assert answer.headers["Cache-Control"] == "no-store"
    assert page["models"]["planner"] == [{"name": "small", "label": "Small", "toy": False, "sized": False}]
    assert page["settings"]["pause"]["value"] == "never" and page["example"]["seed"] == 7
    assert page["settings"]["max_attempts"] == {"value": 5, "least": 1, "most": 100}
    assert set(page["exports"]) >= EXPORTERS.built_in.keys() - {"mp4"} and page["minutes"] == 0


def test_only_newer_messages_are_sent_again(client: Client) -> None:
    client.start()
    board = client.ended()
    messages = board["state"]["messages"]
    last = messages[-1]
    assert client.get("board", id=last["id"], after=last["seq"]).json()["state"]["messages"] == []
    newer = client.get("board", id=last["id"], after=last["seq"] - 1).json()["state"]["messages"]
    assert newer == [last]
    assert client.get("board", id="other", after=last["seq"]).json()["state"]["messages"] == messages


def never_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no request for news end because its time is over."""
    monkeypatch.setattr(routes, "time", SimpleNamespace(monotonic=lambda: 0.0))


def test_the_board_answers_when_something_changes(
    client: Client, models: SmallModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    edition, clock = client.get("board").json()["edition"], count()
    monkeypatch.setattr(routes, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    assert client.get("board", seen=edition, wait=3).json()["edition"] == edition
    assert next(clock) == 4
    never_over(monkeypatch)
    models.seconds = 0.5
    client.start()
    assert client.get("board", seen=edition, wait=20).json()["edition"] != edition
    assert client.get("board", wait=1000).status_code == 400
    client.ended()


def test_the_end_of_the_app_stops_the_story_and_the_wait(
    client: Client, models: SmallModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    never_over(monkeypatch)
    models.seconds = 0.3
    run = client.start()
    client.wait_for_an_image(models)
    board = client.http.app.state.boards
    board.close()
    edition = client.ended()["edition"]
    assert not board.busy and client.about()["status"] == "cancelled"
    assert client.get("board", seen=edition, wait=20).json()["edition"] == edition
    assert client.post("again", run=run).status_code == 409


def test_one_story_at_a_time_and_cancel_loses_nothing(client: Client, models: SmallModels) -> None:
    models.seconds = 0.4
    run = client.start()
    busy = client.post("story", request="Another one.", models=CHOSEN)
    assert busy.status_code == 409 and "Another story is being generated." in busy.json()["error"]
    assert client.post("again", run=run).status_code in (404, 400, 409)
    client.wait_for_an_image(models)
    client.post("cancel", run=run)
    assert client.about()["status"] == "cancelled"
    before = models.drawn
    assert 0 < len(before) < IMAGES + 1
    models.seconds = 0.0
    assert client.post("again", run=run).status_code == 200
    assert client.about()["status"] == "finished"
    assert models.drawn[: len(before)] == before and len(set(models.drawn)) == len(models.drawn)


def test_every_step_waits_for_the_user(client: Client, tmp_path: Path, models: SmallModels) -> None:
    run = client.start(pause="every step")
    asked = client.about()["waiting"]
    assert asked["step"] is None and not models.drawn

    def decide(skip: bool = False) -> dict[str, Any]:
        waiting = client.about()["waiting"]
        answer = client.post("decision", run=run, **waiting, skip=skip)
        assert answer.status_code == 200, answer.text
        assert client.post("again", run=run).status_code == 200
        return client.about()["waiting"]

    first = decide()
    assert first["step"] == 1
    stale = client.post("decision", run=run, step=3, digest=first["digest"])
    assert stale.status_code == 400 and "was not shown here" in stale.json()["error"]
    rejected = next(one for one in shown(client.ended(), "attempt") if one["step"] == 1)["image"]["digest"]
    assert client.post("choice", run=run, step=1, picture=rejected).json()["choices"] == {"1": rejected}
    client.post("again", run=run)
    assert client.about()["waiting"]["step"] == 3
    said = {"step": 3, "attempt": 0, "better_prompt": "add a moon"}
    client.post("redraw", run=run, step=3, prompt="add a moon", feedback=said)
    client.post("again", run=run)
    assert client.about()["waiting"]["step"] == 3
    assert decide()["step"] == 4
    waiting = client.about()["waiting"]
    client.post("decision", run=run, **waiting, skip=True)
    assert client.post("again", run=run, pause="never").status_code == 200
    assert client.about()["status"] == "finished"
    one, _, three, four = load_trajectory(tmp_path / "runs" / run).results
    assert one.image and one.image.digest == rejected
    assert three.attempts[three.chosen or 0].prompt == "add a moon" and four.image is None
    assert client.get("run", run=run).json()["feedback"][0]["better_prompt"] == "add a moon"


def test_ended_while_it_is_read(client: Client, monkeypatch: pytest.MonkeyPatch, models: SmallModels) -> None:
    read = boards.LiveRun.state
    models.seconds = 0.3

    def read_then_wait(live: boards.LiveRun) -> Any:
        messages = read(live)
        for thread in threading.enumerate():
            if "_carry_out" in thread.name:
                thread.join()
        return messages

    monkeypatch.setattr(boards.LiveRun, "state", read_then_wait)
    client.start()
    seen = []
    while not seen or seen[-1]["busy"]:
        seen.append(client.get("board").json())
    assert any(shown(board, "run")[0]["status"] == "running" for board in seen if board["state"])
    assert shown(seen[-1], "run")[0]["status"] == "finished"
    assert seen[-1]["edition"] != seen[-2]["edition"]


def test_a_plan_is_changed_before_it_is_approved(client: Client, tmp_path: Path, models: SmallModels) -> None:
    given = {"captions": "short", "style": "Ink.", "images": [RED.base64_png()]}
    run = client.start(pause="after the plan", **given)
    assert client.about()["waiting"]["step"] is None
    shown = client.get("plan", run=run).json()
    assert shown["pause"] == "after the plan" and shown["plan"]["style"] == "Ink."
    first, *_, last = shown["plan"]["execution_plan"]
    for text, said in (
        ("1. x\n   mask: /etc/passwd", "names a file"),
        ("character: Mia\n1. x\n   draw: a", "cast"),
        ("{", "JSON"),
    ):
        assert said in client.post("plan", run=run, text=text).json()["error"]
    steps = [{**one, "step_number": None, "auxiliary_text": "Mine."} for one in (last, first)]
    answer = client.post("plan", run=run, text=json.dumps({"execution_plan": steps}))
    assert answer.status_code == 200, answer.text
    client.post("again", run=run)
    assert client.about()["status"] == "finished"
    story = load_trajectory(tmp_path / "runs" / run)
    assert [one.prompt for one in story.plan.steps] == [last["prompt"], first["prompt"]]
    assert {one.auxiliary_text for one in story.plan.steps} == {"Mine."} and story.plan.style == "Ink."
    assert story.request.images == (RED,)


def test_a_story_continues_on_another_server(tmp_path: Path, models: SmallModels) -> None:
    with TestClient(app_of(tmp_path, models), base_url="http://127.0.0.1") as http:
        run = Client(http).start(pause="every step")
        waiting = Client(http).about()["waiting"]
        Client(http).post("decision", run=run, **waiting)
    with TestClient(app_of(tmp_path, models), base_url="http://127.0.0.1") as http:
        later = Client(http)
        assert later.get("board").json()["run"] == ""
        assert later.get("run", run=run).json()["decided"]
        assert later.post("again", run=run, pause="never").status_code == 200
        assert later.about()["status"] == "finished"
        # The same request is the same story: nothing is generated again.
        drawn = models.drawn
        assert later.start() == run and later.about()["status"] == "finished" and models.drawn == drawn


def test_what_cannot_start_leaves_no_folder(client: Client, tmp_path: Path) -> None:
    for body, said in (
        ({"request": "A dragon.", "models": CHOSEN}, "does not know a word"),
        ({"request": "A house.", "models": {**CHOSEN, "planner": "/etc/passwd"}}, "not offered"),
        ({"request": " ", "models": CHOSEN}, "1 to"),
        ({"request": "A house.", "models": CHOSEN, "out": "/tmp"}, "out"),
        ({"request": "A house.", "models": CHOSEN, "max_attempts": 0}, "max_attempts"),
        ({"request": "A house.", "models": CHOSEN, "pause": "sometimes"}, "pause"),
        ({"request": "A house."}, "models"),
        ({"request": "A house.", "models": {**CHOSEN, "size": "9x"}}, "size"),
        ({"request": "A house.", "models": CHOSEN, "step_count": 101}, "step_count"),
        ({"request": "A house.", "models": CHOSEN, "images": ["?"]}, "base64"),
        ({"request": "A house.", "models": CHOSEN, "images": [BOMB]}, "pixels"),
        ({"request": "A house.", "models": CHOSEN, "images": ["", "", "", "", ""]}, "images"),
    ):
        answer = client.post("story", **body)
        assert answer.status_code == 400 and said in answer.json()["error"], answer.text
    assert not (tmp_path / "runs").exists()


def test_a_failure_is_shown(client: Client, models: SmallModels, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise boards.InterleaveError("The weights are gone.")

    monkeypatch.setattr(models, "generator", broken)
    client.start()
    assert client.ended()["error"] == "The weights are gone."
    monkeypatch.undo()
    client.start()
    assert client.about()["status"] == "finished" and client.ended()["error"] == ""


def test_a_run_of_the_command_line_is_shown_and_not_continued(client: Client, tmp_path: Path) -> None:
    run = client.start()
    client.ended()
    (tmp_path / "runs" / run / boards.MODELS).unlink()
    refused = client.post("again", run=run)
    assert refused.status_code == 400 and "was not started in the web app" in refused.json()["error"]
    (tmp_path / "runs" / run / boards.MODELS).write_text("[" * 100_000)
    assert client.post("again", run=run).status_code == 400


def test_exports_are_files_to_save(client: Client) -> None:
    run = client.start()
    client.ended()
    starts = {"page": b"<!doctype html>", "pdf": b"%PDF", "zip": b"PK", "markdown": b"PK"}
    assert client.get("export", run=run, to="pdf").status_code == 404
    for to, start in starts.items():
        made = client.post("export", run=run, to=to)
        assert made.status_code == 200, made.text
        sent = client.get("export", run=run, to=to)
        assert sent.content.lower().startswith(start.lower()) and len(sent.content) == made.json()["bytes"]
        assert sent.headers["Content-Disposition"] == f'attachment; filename="{made.json()["name"]}"'
    packed = zipfile.ZipFile(BytesIO(sent.content)).namelist()
    assert "story.md" in packed and len(packed) > IMAGES
    assert client.post("export", run=run, to="gif", title="Any").status_code == 200
    for unknown in ("docx", "..", "../pdf", ""):
        assert client.post("export", run=run, to=unknown).status_code == 400
        assert client.get("export", run=run, to=unknown).status_code == 404


def test_a_failed_export_loses_none(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = client.start()
    client.ended()
    assert client.post("export", run=run, to="markdown").status_code == 200
    before = client.get("export", run=run, to="markdown").content
    files = {path.name for path in (tmp_path / "runs" / run).iterdir()}

    def full(*given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    assert "No space left" in client.post("export", run=run, to="markdown").json()["error"]
    assert client.get("export", run=run, to="markdown").content == before
    assert {path.name for path in (tmp_path / "runs" / run).iterdir()} == files


def test_one_export_at_a_time(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    run = client.start()
    client.ended()
    answers = []

    def slow(*given: object) -> Path:
        answers.append(client.post("export", run=run, to="pdf"))
        raise boards.InterleaveError("stopped")

    monkeypatch.setattr(routes, "export_by_name", slow)
    assert client.post("export", run=run, to="pdf").status_code == 400
    assert [one.status_code for one in answers] == [409]
    monkeypatch.undo()
    assert client.post("export", run=run, to="pdf").status_code == 200


def test_a_story_is_deleted_but_not_while_it_is_generated(client: Client, models: SmallModels) -> None:
    models.seconds = 0.4
    run = client.start()
    client.wait_for_an_image(models)
    assert client.post("delete-story", run=run).status_code == 400
    models.seconds = 0.0
    client.ended()
    assert client.post("delete-story", run=run).json()["stories"] == []


def test_a_late_answer_is_an_error(client: Client) -> None:
    boards = client.http.app.state.boards
    wait = threading.Event().wait
    late = routes.Route("GET", "late", routes.requests.AskPage, lambda board, asked: wait(0.5), 0.1)
    client.http.app.add_api_route("/late", routes._handler(late, lambda _: boards), methods=[late.method])
    answer = client.http.get("/late")
    assert answer.status_code == 504 and "took too long" in json.loads(answer.content)["error"]
