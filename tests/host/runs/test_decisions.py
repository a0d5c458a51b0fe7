"""A user or a program decides in the real host: pauses, picks, redraws, thumbnails, and the story check."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from ..graphs.attempt_pairs import next_pair, pair, paused, paused_pair
from ..graphs.stories import (
    EXPORT,
    HAT,
    Graph,
    accepted,
    changed,
    checked,
    finding,
    node,
    planned,
    reply,
    story,
    verdict,
    verdicts,
)  # fmt: skip
from ..server.comfy_server import ComfyServer
from ..server.listener import newest
from ..server.runs import executed, failure, journal, made, ran_in, reasons, results, text_of

OWN = "a red house with a green door"


def shown(host: ComfyServer, folder: Path, kind: str) -> list[dict[str, Any]]:
    """What the live view shows of a run, of one kind."""
    messages = host.ask("run", run=folder.name)["messages"]
    return [one["shown"] for one in messages if one["shown"]["kind"] == kind]


def state(host: ComfyServer, folder: Path) -> tuple[dict[str, Any], bool]:
    """Return the message about the whole run, and whether the user has decided."""
    (run,) = shown(host, folder, "run")
    return run, host.ask("run", run=folder.name)["decided"]


def waits_for(host: ComfyServer, folder: Path) -> dict[str, Any]:
    return state(host, folder)[0]["waiting"]


def decided(host: ComfyServer, folder: Path, **decision: Any) -> httpx.Response:
    """Decide about what the run waits for."""
    waiting = state(host, folder)[0].get("waiting", {"step": None, "digest": None})
    return host.tell("decision", **{"run": folder.name, **waiting, **decision})


def redrawn(host: ComfyServer, folder: Path, step: int, prompt: str, **more: Any) -> dict[str, Any]:
    answer = host.tell("redraw", run=folder.name, step=step, prompt=prompt, **more)
    assert answer.status_code == 200, answer.text
    return answer.json()


def picked(host: ComfyServer, folder: Path, step: int, picture: str | None) -> dict[str, Any]:
    answer = host.tell("choice", run=folder.name, step=step, picture=picture)
    assert answer.status_code == 200, answer.text
    return answer.json()


# Pauses


def test_every_step_waits_until_it_is_decided(host: ComfyServer) -> None:
    pdf = EXPORT | {"filename_prefix": "decided/book"}
    graph = paused("approved step by step", "every step") | {
        "pdf": node("InterleaveExport", trajectory=["loop", 2], **pdf),
        "saved": node("InterleaveSaveTrajectory", trajectory=["loop", 2], filename_prefix="decided/story"),
    }
    clips = {
        "list": node("InterleaveClipList", trajectory=["loop", 2], family="Wan", seconds=1.0),
        "clips": node("InterleaveSaveTrajectory", trajectory="@list", filename_prefix="decided/clips"),
    }
    written = host.base / "output" / "decided"
    first = host.run(graph | clips)
    folder = journal(host, "approved step by step")
    assert not written.exists() and first["pdf"] == first["saved"], "nothing is written while the story waits"
    assert first["pdf"]["interleave_waiting"][0]["step"] == 1 and "clips" not in first
    assert len(first["loop"]["images"]) == 1 and reasons(folder) == ["accepted"]
    run, is_decided = state(host, folder)
    (image,) = [path.stem for path in (folder / "pictures").glob("*.png")]
    assert run["waiting"] == {"step": 1, "digest": image} and not is_decided
    assert run["status"] == "incomplete"
    for other in ({"step": 2}, {"digest": "0" * 40}):
        refused = decided(host, folder, **other)
        assert refused.status_code == 400 and "about step 1, which was not shown" in refused.json()["error"]
    host.run(graph)
    assert reasons(folder) == ["accepted"], "queued again without a decision it still waits"
    assert decided(host, folder).json()["decided"]
    # The rest of the plan is edited at the pause.
    kept = made(host, "approved step by step")
    graph = changed(graph, "plan", prompts="a house\na boat\na lake")
    host.run(graph)
    assert [one["step"]["prompt"] for one in results(folder)] == ["a house", "a boat"]
    assert [one.get("approved") for one in results(folder)] == [True, None]
    assert kept.items() <= made(host, "approved step by step").items(), "what was generated stays"
    for _ in range(2):
        assert decided(host, folder, skip=True).status_code == 200
        done = host.run(graph)
    assert reasons(folder) == ["picked", "skipped", "skipped"] and len(done["loop"]["images"]) == 1
    assert [path.name for path in sorted(written.iterdir())] == ["book_00001_.pdf", "story_00001_"]
    run, is_decided = state(host, folder)
    assert "waiting" not in run and is_decided and run["status"] == "finished"
    refused = decided(host, folder)
    assert refused.status_code == 400 and "does not wait" in refused.json()["error"]
    assert decided(host, folder, run="../../input").status_code == 400


def test_a_planners_plan_waits_without_an_image(host: ComfyServer) -> None:
    planner = planned(reply("a house", "a tree"), request="approved plan")
    graph = paused("approved plan", "after the plan") | planner | {"plan": planner["planner"]}
    first = host.run(graph)
    folder = journal(host, "approved plan")
    assert reasons(folder) == [] and not (folder / "attempts").exists()
    assert "out" not in first and "board" in first
    waiting = waits_for(host, folder)
    assert waiting["step"] is None and waiting["digest"]
    assert decided(host, folder, skip=True).status_code == 400
    assert decided(host, folder).status_code == 200
    assert len(host.run(graph)["out"]["images"]) == 2 and reasons(folder) == ["accepted", "accepted"]


def test_a_step_is_redrawn_or_another_attempt_used_at_a_pause(host: ComfyServer) -> None:
    graph = paused("decided otherwise", "every step", True, False, True, True)
    host.run(graph)
    folder = journal(host, "decided otherwise")
    first = results(folder)[0]["attempts"][0]["image"]
    assert redrawn(host, folder, 1, "a red house")["decided"], "a redraw is a decision too"
    host.run(graph)
    (step,) = results(folder)
    assert [one["prompt"] for one in step["attempts"]] == ["a house", "a red house"]
    assert step["chosen"] == 1 and step["stop_reason"] == "redrawn"
    assert waits_for(host, folder) == {"step": 1, "digest": step["attempts"][1]["image"]}
    assert picked(host, folder, 1, first)["decided"]
    host.run(graph)
    step, following = results(folder)
    assert (step["chosen"], step["stop_reason"]) == (0, "picked") and "approved" not in step
    assert following["attempts"][0]["source"] == first and waits_for(host, folder)["step"] == 2


@pytest.mark.parametrize("at", ["loop", "close"])
def test_a_program_directs_a_story_with_what_the_queue_answers(host: ComfyServer, at: str) -> None:
    request = f"directed by a program at {at}"
    graph = (paused if at == "loop" else paused_pair)(request, "every step", False, False, True, True)
    seen = []
    # After a further attempt, Attempt End's display is that of an expanded node.
    while displays := [one for one in host.run(graph).values() if "interleave_waiting" in one]:
        (display,) = displays
        (waiting,), (run,) = display["interleave_waiting"], display["interleave_runs"]
        seen.append(waiting["step"])
        assert waiting["digest"] in {image["filename"].partition(".")[0] for image in display["images"]}
        # The first step is rejected twice: one more attempt with the program's own prompt, then approve.
        if len(seen) == 1:
            answer = host.tell("redraw", run=run, step=1, prompt="a red house")
        else:
            answer = host.tell("decision", run=run, **waiting)
        assert answer.status_code == 200, answer.text
    assert seen == [1, 1, 2]
    folder = journal(host, request)
    assert reasons(folder) == ["picked", "picked"]
    assert results(folder)[0]["attempts"][2]["prompt"] == "a red house"


def test_attempt_end_waits_and_nothing_behind_it_runs(host: ComfyServer) -> None:
    graph = paused_pair("nodes step by step", "every step")
    first = host.run(graph)
    folder = journal(host, "nodes step by step")
    assert reasons(folder) == ["accepted"] and not {"out", "text", "accepted", "final"} & first.keys()
    assert len(first["close"]["images"]) == 1 and "approved" not in first["close"]["text"][0]
    painted = ran_in(host).count("paint")
    assert "out" not in host.run(graph) and ran_in(host).count("paint") == painted, "it still waits"
    assert decided(host, folder).status_code == 200
    host.run(graph)
    assert reasons(folder) == ["picked", "accepted"] and ran_in(host).count("paint") == painted + 1
    assert decided(host, folder, skip=True).status_code == 200
    done = host.run(graph)
    assert reasons(folder) == ["picked", "skipped"]
    assert len(done["out"]["images"]) == 1 and done["accepted"]["text"] == ["True"]
    assert "Approved at attempt 1" in text_of(done) and "picked" not in text_of(done)


def test_a_rejected_step_of_attempt_end_is_redrawn_with_its_own_nodes(host: ComfyServer) -> None:
    graph = paused_pair("nodes if rejected", "at rejected steps", True, False, False, True)
    host.run(graph)
    folder = journal(host, "nodes if rejected")
    assert reasons(folder) == ["accepted", "attempts used up"]
    redrawn(host, folder, 2, "a taller tree")
    painted = ran_in(host).count("paint")
    done = host.run(graph)
    assert ran_in(host).count("paint") == painted + 1
    assert reasons(folder) == ["accepted", "accepted"] and len(done["out"]["images"]) == 2
    assert done["final"]["text"] == ["a taller tree"], "nodes that depend on it run again"


def test_the_next_pair_does_not_continue_from_an_image_that_waits(host: ComfyServer) -> None:
    graph = paused_pair("nodes of two pairs", "every step", step=1)
    follower = next_pair(paused_pair("x", "never"), step=2)
    del follower["plan2"]
    host.run(graph | follower)
    folder = journal(host, "nodes of two pairs")
    assert reasons(folder) == ["accepted"] and decided(host, folder).status_code == 200
    done = host.run(graph | follower)
    assert reasons(folder) == ["picked", "accepted"] and {"out", "out2"} <= done.keys()


def test_everything_skipped_gives_no_image_and_no_error(host: ComfyServer) -> None:
    graph = paused_pair("nodes all skipped", "every step", step=1)
    host.run(graph)
    folder = journal(host, "nodes all skipped")
    assert decided(host, folder, skip=True).status_code == 200
    done = host.run(graph)
    assert reasons(folder) == ["skipped"] and "out" not in done and "Skipped by hand" in text_of(done)


# Picks and redraws of a finished run


def test_a_picked_attempt_is_used_with_the_next_run(host: ComfyServer) -> None:
    replies = [verdict(False, "a house, better", 0.3), *accepted(3)]
    graph = story("picked", ["a house", "a tree"], critic=replies, max_attempts=3)

    def images() -> list[str]:
        return [image["filename"] for image in host.run(graph)["loop"]["images"]]

    first, folder = images(), journal(host, "picked")
    state = newest(host.ask("run", run=folder.name)["messages"])
    refused = state["attempt", 1, 0]["image"]["digest"]
    assert executed(host.wait(host.queue(graph))) == set(), "nothing changed, nothing runs"
    assert picked(host, folder, 1, refused)["choices"] == {"1": refused}
    before = len(made(host, "picked", "attempts"))
    second = images()
    assert second[0] == f"{refused}.png" != first[0] and second[1] != first[1]
    assert len(made(host, "picked", "attempts")) == before + 1, "only step 2 was generated"
    assert executed(host.wait(host.queue(graph))) == set()
    (folder / "choices.json").unlink()
    assert images() == first, "editing only the file has the same effect"


def test_attempt_end_uses_a_picked_attempt_without_generating(host: ComfyServer) -> None:
    graph = pair("picked between", 2)
    first = host.run(graph)
    assert "> attempt 2" in text_of(first) and first["accepted"]["text"] == ["True"]
    folder = journal(host, "picked between")
    painted = ran_in(host).count("paint")
    refused = results(folder)[0]["attempts"][0]["image"]
    picked(host, folder, 1, refused)
    second = host.run(graph)
    assert "Attempt 1 picked by hand" in text_of(second)
    assert second["final"]["text"] == ["picked between"], "nodes that depend on it run again"
    assert [image["filename"] for image in second["close"]["images"]] == [f"{refused}.png"]
    picked(host, folder, 1, None)
    graph = changed(graph, "agent", replies=json.dumps(verdicts(2)))
    assert "> attempt 2" in text_of(host.run(graph)) and ran_in(host).count("paint") == painted


def redrawable(request: str) -> Graph:
    """Return a story of two steps; the first is accepted at attempt 2."""
    replies = [verdict(False, "a house, larger", 0.2), *accepted(8)]
    return story(request, ["a house", "a tree"], (320, 192), critic=replies, max_attempts=3)


def test_queued_again_the_loop_generates_the_requested_redraw(host: ComfyServer) -> None:
    graph = redrawable("asked for")
    first = host.run(graph)
    folder = journal(host, "asked for")
    before = made(host, "asked for", "attempts")
    answer = redrawn(host, folder, 1, OWN, feedback={"step": 1, "attempt": 1, "better_prompt": OWN})
    assert answer["redraws"] == {"1": 1} and answer["feedback"][0]["better_prompt"] == OWN
    second = host.run(graph)
    step = results(folder)[0]
    assert (step["chosen"], step["attempts"][2]["prompt"]) == (2, OWN)
    assert step["attempts"][2]["redraw"] == {"by": "user", "number": 1}
    names = [[one["filename"] for one in outputs["loop"]["images"]] for outputs in (first, second)]
    assert names[0][0] != names[1][0] and names[0][1] != names[1][1]
    added = made(host, "asked for", "attempts").keys() - before.keys()
    assert len(added) == 2, "the step and the one that edits it"
    attempts = shown(host, folder, "attempt")
    assert [one["redraw"] for one in attempts if one["step"] == 1] == [0, 0, 1]


def test_thumbnails_are_small_and_cached_by_the_browser(host: ComfyServer) -> None:
    host.run(redrawable("small pictures"))
    folder = journal(host, "small pictures")
    picture = results(folder)[0]["attempts"][0]["image"]
    given = {"run": folder.name, "picture": picture, "size": 256}
    answer = host.answer("/interleave-thinker/thumbnail", **given)
    assert answer.headers["content-type"] == "image/webp" and "immutable" in answer.headers["cache-control"]
    assert Image.open(io.BytesIO(answer.content)).size == (256, 154)


# The story check


def check_of(host: ComfyServer, folder: Path) -> dict[str, Any]:
    (check,) = shown(host, folder, "check")
    return check


def test_a_finding_generates_its_step_and_the_later_ones_again(host: ComfyServer) -> None:
    request = "checked as a whole"
    graph = checked(request, [*accepted(3), finding(2, 3), *accepted(2)])
    assert len(host.run(graph)["loop"]["images"]) == 3
    folder = journal(host, request)
    steps = results(folder)
    assert [(len(one["attempts"]), one["chosen"]) for one in steps] == [(1, 0), (2, 1), (1, 0)]
    again = steps[1]["attempts"][1]
    assert again["redraw"]["by"] == "story check" and again["prompt"].endswith(HAT)
    assert steps[2]["attempts"][0]["source"] == again["image"]
    assert check_of(host, folder) == {
        "kind": "check",
        "findings": [{"step": 2, "attempt": 1, "kind": "identity", "problem": HAT}],
        "more": 0,
        "reopened": 2,
        "warning": "",
    }, "what was found about the replaced image of step 3 is out of date"
    flags = [one.get("checked", False) for one in shown(host, folder, "attempt")]
    assert flags == [False, False, True, False]
    before = made(host, request)
    host.run(graph)
    assert made(host, request) == before, "queued again, nothing is generated or judged"


def test_a_check_that_failed_is_done_by_the_next_run(host: ComfyServer) -> None:
    request = "checked at the second time"
    graph = checked(request, [*accepted(3), "nothing", "nothing", finding()])
    host.run(graph)
    folder = journal(host, request)
    assert "does not contain findings" in check_of(host, folder)["warning"]
    host.run(graph)
    check = check_of(host, folder)
    assert check["findings"] == [] and check["reopened"] is None and check["warning"] == ""


def test_an_agent_that_cannot_check_is_an_error_before_an_image(host: ComfyServer) -> None:
    graph = checked("not checked", accepted(3))
    failure(host, changed(graph, "loop", critic=None), "no critic is connected")
    tiny = node("InterleaveLoadAgent", agent="tiny world critic")
    failure(host, graph | {"critic": tiny}, "cannot be the story checker")
    assert not made(host, "not checked")
