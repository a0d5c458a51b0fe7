"""A Critic Loop that checks the finished story in the real host, and generates a step again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from ..graphs.klein import node
from ..graphs.story_checks import HAT, accepted, checked, finding
from ..server.comfy_server import ComfyServer, HostError
from ..server.runs import ROUTE, journals, made


def live(host: ComfyServer, folder: Path) -> list[dict[str, Any]]:
    """Return everything that the live view shows of a run."""
    answer = httpx.get(f"{host.url}{ROUTE}/run", params={"run": folder.name}).json()
    return [one["shown"] for one in answer["messages"]]


def check_in(shown: list[dict[str, Any]]) -> dict[str, Any]:
    (check,) = [one for one in shown if one["kind"] == "check"]
    return check


def trajectory_in(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "trajectory.json").read_text(encoding="utf-8"))


def test_a_finding_generates_its_step_and_the_later_ones_again(host: ComfyServer) -> None:
    request = "checked as a whole"
    graph = checked(request, [*accepted(3), finding(2, 3), *accepted(2)])
    done = host.run(graph)
    (folder,) = journals(host, request)
    trajectory = trajectory_in(folder)
    assert [len(one["attempts"]) for one in trajectory["results"]] == [1, 2, 1]
    assert [one["chosen"] for one in trajectory["results"]] == [0, 1, 0]
    again = trajectory["results"][1]["attempts"][1]
    assert again["redraw"]["by"] == "story check" and again["prompt"].endswith(HAT)
    assert trajectory["results"][2]["attempts"][0]["source"] == again["image"]
    assert len(done["loop"]["images"]) == 3
    shown = live(host, folder)
    assert check_in(shown) == {
        "kind": "check",
        "findings": [{"step": 2, "attempt": 1, "kind": "identity", "problem": HAT}],
        "more": 0,
        "reopened": 2,
        "warning": "",
    }, "what was found about the replaced image of step 3 is out of date"
    attempts = [one for one in shown if one["kind"] == "attempt"]
    assert [one.get("checked", False) for one in attempts] == [False, False, True, False]
    before = made(host, request)
    host.run(graph)
    assert made(host, request) == before, "queued again, nothing is generated or judged"


def test_a_story_that_fits_stays(host: ComfyServer) -> None:
    request = "checked and right"
    host.run(checked(request, [*accepted(3), finding()], most=3))
    (folder,) = journals(host, request)
    assert [len(one["attempts"]) for one in trajectory_in(folder)["results"]] == [1, 1, 1]
    check = check_in(live(host, folder))
    assert check["findings"] == [] and check["reopened"] is None and check["warning"] == ""


def test_a_check_that_failed_is_done_by_the_next_run(host: ComfyServer) -> None:
    request = "checked at the second time"
    graph = checked(request, [*accepted(3), "nothing", "nothing", finding()])
    host.run(graph)
    (folder,) = journals(host, request)
    assert "does not contain findings" in check_in(live(host, folder))["warning"]
    host.run(graph)
    assert check_in(live(host, folder))["warning"] == ""


def test_the_newest_state_of_a_running_loop_has_no_replaced_attempts(host: ComfyServer) -> None:
    request = "checked with fewer attempts"
    rejected = dict(accepted(1)[0], text=accepted(1)[0]["text"].replace("true", "false"), probability=0.1)
    replies = [*accepted(2), rejected, *accepted(1), finding(2), *accepted(2)]
    graph = checked(request, replies)
    host.run(graph)
    (folder,) = journals(host, request)
    answer = httpx.get(f"{host.url}{ROUTE}/live", params={"node": "loop"}).json()
    shown = [one["shown"] for one in answer["messages"]]
    places = [(one["step"], one["attempt"]) for one in shown if one["kind"] == "attempt"]
    assert sorted(places) == [(1, 0), (2, 0), (2, 1), (3, 0)]
    assert [len(one["attempts"]) for one in trajectory_in(folder)["results"]] == [1, 2, 1]


@pytest.mark.parametrize(
    ("critic", "said"), [("none", "no critic is connected"), ("tiny", "cannot check stories")]
)
def test_an_agent_that_cannot_check_is_an_error_before_an_image(
    host: ComfyServer, critic: str, said: str
) -> None:
    request = f"checked by {critic}"
    graph = checked(request, accepted(3))
    if critic == "none":
        del graph["critic"], graph["loop"]["inputs"]["critic"]
    else:
        graph["critic"] = node("InterleaveLoadAgent", agent="tiny world critic")
    with pytest.raises(HostError, match=said):
        host.run(graph)
    assert not made(host, request)
