"""Critic Loop and Attempt End that pause in the real host: they end, wait, and continue after a decision."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from ..graphs.klein import node
from ..graphs.pauses import paused, paused_pair, reasons
from ..graphs.replies import reply
from ..server.comfy_server import ComfyServer
from ..server.runs import ROUTE, journals, made, ran_in


def decided(host: ComfyServer, folder: Path, **decision: Any) -> httpx.Response:
    """Decide about what the run waits for."""
    waiting = state(host, folder)[0].get("waiting", {"step": None, "digest": None})
    return host.post(f"{ROUTE}/decision", {"run": folder.name, **waiting, **decision})


def state(host: ComfyServer, folder: Path) -> tuple[dict[str, Any], bool]:
    """Return the message about the whole run, and whether the user has decided."""
    answer = httpx.get(f"{host.url}{ROUTE}/run", params={"run": folder.name}).json()
    (run,) = [one["shown"] for one in answer["messages"] if one["shown"]["kind"] == "run"]
    return run, answer["decided"]


def test_every_step_waits_until_it_is_decided(host: ComfyServer) -> None:
    graph = paused("approved step by step", "every step")
    first = host.run(graph)
    (folder,) = journals(host, "approved step by step")
    assert len(first["loop"]["images"]) == 1 and reasons(folder) == ["accepted"]
    run, is_decided = state(host, folder)
    (image,) = [path.stem for path in (folder / "pictures").glob("*.png")]
    assert run["waiting"] == {"step": 1, "digest": image} and not is_decided
    assert run["status"] == "incomplete"
    for other in ({"step": 2}, {"digest": "0" * 40}, {"step": None}):
        refused = decided(host, folder, **other)
        assert refused.status_code == 400 and "about step 1, which was not shown" in refused.json()["error"]
    host.run(graph)
    assert reasons(folder) == ["accepted"], "queued again without a decision it still waits"
    answer = decided(host, folder)
    assert answer.status_code == 200 and answer.json()["decided"], answer.text
    host.run(graph)
    assert reasons(folder) == ["picked", "accepted"]
    assert decided(host, folder, skip=True).status_code == 200
    done = host.run(graph)
    assert reasons(folder) == ["picked", "skipped"] and len(done["loop"]["images"]) == 1
    run, is_decided = state(host, folder)
    assert "waiting" not in run and is_decided and run["status"] == "finished"
    refused = decided(host, folder)
    assert refused.status_code == 400 and "does not wait" in refused.json()["error"]
    assert decided(host, folder, run="../../input").status_code == 400


def test_only_a_rejected_step_waits(host: ComfyServer) -> None:
    graph = paused("approved if rejected", "at rejected steps", True, False, False)
    host.run(graph)
    (folder,) = journals(host, "approved if rejected")
    assert reasons(folder) == ["accepted", "attempts used up"]
    assert state(host, folder)[0]["waiting"]["step"] == 2
    assert decided(host, folder).status_code == 200
    host.run(graph)
    assert reasons(folder) == ["accepted", "picked"]


def test_a_planners_plan_waits_without_an_image(host: ComfyServer) -> None:
    graph = paused("approved plan", "after the plan")
    graph["agent"] = node("InterleaveTestAgent", replies=json.dumps([reply("a house", "a tree")]))
    graph["plan"] = node("InterleavePlanner", agent="@agent", request="approved plan")
    first = host.run(graph)
    (folder,) = journals(host, "approved plan")
    assert reasons(folder) == [] and not (folder / "attempts").exists()
    assert "out" not in first and "board" in first
    waiting = state(host, folder)[0]["waiting"]
    assert waiting["step"] is None and waiting["digest"]
    assert decided(host, folder, skip=True).status_code == 400
    assert decided(host, folder).status_code == 200
    done = host.run(graph)
    assert reasons(folder) == ["accepted", "accepted"] and len(done["out"]["images"]) == 2


def test_a_step_is_redrawn_or_another_attempt_used_at_a_pause(host: ComfyServer) -> None:
    graph = paused("decided otherwise", "every step", True, False, True, True)
    host.run(graph)
    (folder,) = journals(host, "decided otherwise")
    first = results(folder)[0]["attempts"][0]["image"]
    asked = {"run": folder.name, "step": 1, "prompt": "a red house", "picture": None, "feedback": None}
    assert host.post(f"{ROUTE}/redraw", asked).json()["decided"], "a redraw is a decision too"
    host.run(graph)
    (step,) = results(folder)
    assert [one["prompt"] for one in step["attempts"]] == ["a house", "a red house"]
    assert step["chosen"] == 1 and step["stop_reason"] == "redrawn"
    assert state(host, folder)[0]["waiting"] == {"step": 1, "digest": step["attempts"][1]["image"]}
    answer = host.post(f"{ROUTE}/choice", {"run": folder.name, "step": 1, "picture": first})
    assert answer.json()["decided"]
    host.run(graph)
    step, following = results(folder)
    assert (step["chosen"], step["stop_reason"]) == (0, "picked") and "approved" not in step
    assert following["attempts"][0]["source"] == first
    assert state(host, folder)[0]["waiting"]["step"] == 2


def test_the_rest_of_the_plan_is_edited_at_a_pause(host: ComfyServer) -> None:
    graph = paused("edited while it waits", "every step")
    host.run(graph)
    (folder,) = journals(host, "edited while it waits")
    first = made(host, "edited while it waits")
    assert decided(host, folder).status_code == 200
    graph["plan"]["inputs"]["prompts"] = "a house\na boat\na lake"
    host.run(graph)
    assert [one["step"]["prompt"] for one in results(folder)] == ["a house", "a boat"]
    assert [one.get("approved") for one in results(folder)] == [True, None]
    assert first.items() <= made(host, "edited while it waits").items(), "what was generated stays"
    assert state(host, folder)[0]["waiting"]["step"] == 2


@pytest.mark.parametrize("node_of", ["loop", "close"])
def test_a_program_directs_a_story_with_what_the_queue_answers(host: ComfyServer, node_of: str) -> None:
    request = f"directed by a program at {node_of}"
    graph = (paused if node_of == "loop" else paused_pair)(request, "every step", False, False, True, True)
    seen = []
    # After a further attempt, Attempt End's display is that of an expanded node.
    while shown := [one for one in host.run(graph).values() if "interleave_waiting" in one]:
        (shown,) = shown
        (waiting,), (run,) = shown["interleave_waiting"], shown["interleave_runs"]
        seen.append(waiting["step"])
        assert waiting["digest"] in {image["filename"].partition(".")[0] for image in shown["images"]}
        # The first step is rejected twice: one more attempt with the program's own prompt, then approve.
        if len(seen) == 1:
            answer = host.post(f"{ROUTE}/redraw", {"run": run, "step": 1, "prompt": "a red house"})
        else:
            answer = host.post(f"{ROUTE}/decision", {"run": run, **waiting})
        assert answer.status_code == 200, answer.text
    assert seen == [1, 1, 2]
    (folder,) = journals(host, request)
    assert reasons(folder) == ["picked", "picked"]
    assert results(folder)[0]["attempts"][2]["prompt"] == "a red house"


def results(folder: Path) -> list[dict[str, Any]]:
    return json.loads((folder / "trajectory.json").read_text(encoding="utf-8"))["results"]


def test_attempt_end_waits_and_nothing_behind_it_runs(host: ComfyServer) -> None:
    graph = paused_pair("nodes step by step", "every step")
    first = host.run(graph)
    (folder,) = journals(host, "nodes step by step")
    assert reasons(folder) == ["accepted"] and not {"out", "text", "accepted", "final"} & first.keys()
    assert len(first["close"]["images"]) == 1 and "approved" not in first["close"]["text"][0]
    assert state(host, folder)[0]["waiting"]["step"] == 1
    painted = ran_in(host).count("paint")
    again = host.run(graph)
    assert "out" not in again and ran_in(host).count("paint") == painted, "it still waits"
    assert decided(host, folder).status_code == 200
    host.run(graph)
    assert reasons(folder) == ["picked", "accepted"] and ran_in(host).count("paint") == painted + 1
    assert decided(host, folder, skip=True).status_code == 200
    done = host.run(graph)
    assert reasons(folder) == ["picked", "skipped"]
    assert len(done["out"]["images"]) == 1 and done["accepted"]["text"] == ["True"]
    assert "Approved at attempt 1" in done["text"]["text"][0] and "picked" not in done["text"]["text"][0]
    run, is_decided = state(host, folder)
    assert "waiting" not in run and is_decided and run["status"] == "finished"


def test_only_a_rejected_step_of_attempt_end_waits(host: ComfyServer) -> None:
    graph = paused_pair("nodes if rejected", "at rejected steps", True, False, False, True)
    host.run(graph)
    (folder,) = journals(host, "nodes if rejected")
    assert reasons(folder) == ["accepted", "attempts used up"]
    asked = {"run": folder.name, "step": 2, "prompt": "a taller tree", "picture": None, "feedback": None}
    assert host.post(f"{ROUTE}/redraw", asked).status_code == 200
    done = host.run(graph)
    assert reasons(folder) == ["accepted", "accepted"] and len(done["out"]["images"]) == 2
    assert done["final"]["text"] == ["a taller tree"]


def test_the_next_pair_does_not_continue_from_an_image_that_waits(host: ComfyServer) -> None:
    graph = paused_pair("nodes of two pairs", "every step", step=1)
    follower = {f"{name}2": one for name, one in paused_pair("x", "never", step=2).items()}
    for one in follower.values():
        links = {key: value for key, value in one["inputs"].items() if isinstance(value, list)}
        one["inputs"] |= {key: [f"{name}2", number] for key, (name, number) in links.items()}
    del follower["open2"]["inputs"]["plan"], follower["plan2"]
    follower["open2"]["inputs"]["story"] = ["close", 5]
    host.run(graph | follower)
    (folder,) = journals(host, "nodes of two pairs")
    assert reasons(folder) == ["accepted"]
    assert decided(host, folder).status_code == 200
    done = host.run(graph | follower)
    assert reasons(folder) == ["picked", "accepted"] and {"out", "out2"} <= done.keys()


def test_everything_skipped_gives_no_image_and_no_error(host: ComfyServer) -> None:
    graph = paused_pair("nodes all skipped", "every step", step=1)
    host.run(graph)
    (folder,) = journals(host, "nodes all skipped")
    assert decided(host, folder, skip=True).status_code == 200
    done = host.run(graph)
    assert reasons(folder) == ["skipped"] and "out" not in done
    assert "Skipped by hand" in done["text"]["text"][0]
