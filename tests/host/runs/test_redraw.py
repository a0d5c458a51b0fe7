"""One more attempt requested by the user in the real host, at Critic Loop and Attempt End, and errors."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import httpx
from PIL import Image

from ..graphs.attempt_pairs import pair
from ..graphs.klein import Graph, story
from ..graphs.replies import verdict
from ..server.comfy_server import ComfyServer
from ..server.runs import ROUTE, journals, ran_in

SIZE = (320, 192)
OWN = "a red house with a green door"


def judged(request: str) -> Graph:
    """Return a story of two steps; the first is accepted at attempt 2."""
    refused = verdict(False, "a house, larger", 0.2)
    refused["text"] = refused["text"].replace("looked", request)
    replies = [refused, *[verdict(True, "", 0.9)] * 8]
    return story(request, ["a house", "a tree"], SIZE, critic=json.dumps(replies), max_attempts=3)


def asked(host: ComfyServer, folder: Path, **request: Any) -> httpx.Response:
    return host.post(f"{ROUTE}/redraw", {"run": folder.name, "step": 1, **request})


def results(folder: Path) -> list[dict[str, Any]]:
    return json.loads((folder / "trajectory.json").read_text(encoding="utf-8"))["results"]


def drawn(folder: Path) -> set[str]:
    return {path.name for path in (folder / "attempts").iterdir()}


def test_queued_again_the_loop_generates_the_requested_redraw(host: ComfyServer) -> None:
    graph = judged("asked for")
    first = host.run(graph)
    (folder,) = journals(host, "asked for")
    before = drawn(folder)
    word = {"step": 1, "attempt": 1, "better_prompt": OWN}
    answer = asked(host, folder, prompt=OWN, feedback=word)
    assert answer.status_code == 200, answer.text
    assert answer.json()["redraws"] == {"1": 1}
    assert answer.json()["feedback"][0]["better_prompt"] == OWN
    second = host.run(graph)
    redrawn = results(folder)[0]
    assert (redrawn["chosen"], redrawn["attempts"][2]["prompt"]) == (2, OWN)
    assert redrawn["attempts"][2]["redraw"] == {"by": "user", "number": 1}
    names = [[one["filename"] for one in outputs["loop"]["images"]] for outputs in (first, second)]
    assert names[0][0] != names[1][0] and names[0][1] != names[1][1]
    assert len(drawn(folder) - before) == 2, "the step and the one that edits it"
    shown = httpx.get(f"{host.url}{ROUTE}/run", params={"run": folder.name}).json()["messages"]
    attempts = [one["shown"] for one in shown if one["shown"]["kind"] == "attempt"]
    assert [one["redraw"] for one in attempts if one["step"] == 1] == [0, 0, 1]


def test_a_run_with_a_deleted_folder_is_generated_again(host: ComfyServer) -> None:
    graph = story("deleted", ["a house", "a tree"], SIZE)
    host.run(graph)
    (folder,) = journals(host, "deleted")
    before = drawn(folder)
    shutil.rmtree(folder)
    refused = asked(host, folder)
    assert refused.status_code == 400 and "was not found" in refused.json()["error"]
    assert not folder.exists()
    outputs = host.run(graph)
    assert drawn(folder) == before
    assert all((folder / "pictures" / one["filename"]).is_file() for one in outputs["loop"]["images"])


def test_a_pair_generates_the_requested_redraw_with_its_own_nodes(host: ComfyServer) -> None:
    graph = pair("pair asked for", 2)
    host.run(graph)
    (folder,) = journals(host, "pair asked for")
    painted = ran_in(host).count("paint")
    assert asked(host, folder, prompt=OWN).status_code == 200
    outputs = host.run(graph)
    assert ran_in(host).count("paint") == painted + 1
    redrawn = results(folder)[0]
    assert (redrawn["chosen"], redrawn["attempts"][-1]["prompt"]) == (2, OWN)
    assert outputs["final"]["text"] == [OWN], "nodes that depend on it run again"


def test_thumbnails_are_small_and_cached_by_the_browser(host: ComfyServer) -> None:
    host.run(judged("small pictures"))
    (folder,) = journals(host, "small pictures")
    picture = results(folder)[0]["attempts"][0]["image"]
    given = {"run": folder.name, "picture": picture, "size": 256}
    answer = httpx.get(f"{host.url}{ROUTE}/thumbnail", params=given, timeout=60)
    assert answer.headers["content-type"] == "image/webp" and "immutable" in answer.headers["cache-control"]
    assert Image.open(io.BytesIO(answer.content)).size == (256, 154)
    assert len(answer.content) < (folder / "pictures" / f"{picture}.png").stat().st_size / 3
    for wrong in ({"picture": "f" * 40}, {"run": "../input"}, {"picture": "../x"}, {"size": 5000}):
        refused = httpx.get(f"{host.url}{ROUTE}/thumbnail", params=given | wrong, timeout=60)
        assert refused.status_code in (400, 404) and refused.json()["error"]
