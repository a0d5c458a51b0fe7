"""Queue again after no change, a change, a cancel or a crash: only what is missing is generated."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.host_home import HostHome
from support.image_service import image_service

from ..graphs.examples import id_of, need_checkpoints, twin
from ..graphs.stories import EXPORT, Graph, changed, node, planned, reply, story, storyboard, verdict
from ..server.comfy_server import ComfyServer, running
from ..server.runs import (
    answers_at_once,
    executed,
    journal,
    made,
    reasons,
    started_running,
    text_of,
    wait_until,
)  # fmt: skip


def judged(request: str, prompts: list[str], replies: int, words: int = 0, **settings: Any) -> Graph:
    """Return a story whose critic accepts this often, with as many words of reasoning."""
    accepting = verdict(True)
    if words:
        accepting["text"] = accepting["text"].replace("looked", "so " * words)
    graph = story(request, prompts, critic=[accepting] * replies, max_attempts=3, **settings)
    return changed(graph, "critic", seconds_per_word=0.2 if words else 0.0)


def pictures(count: int) -> list[str]:
    return [f"picture {number}" for number in range(count)]


def test_an_unchanged_graph_runs_nothing(host: ComfyServer) -> None:
    graph = judged("unchanged", ["a", "b"], 2)
    host.run(graph)
    assert executed(host.wait(host.queue(graph))) == set()


# Cancel


def planning(request: str) -> tuple[Graph, Callable[[ComfyServer], Any]]:
    graph = planned(reply(*["word " * 200] * 5), request=request, seconds=0.02)
    # An interrupt before the first node is forgotten.
    return graph, lambda host: host.get("/queue")["queue_running"] and time.sleep(0.7) is None


def sampling(request: str) -> tuple[Graph, Callable[[ComfyServer], Any]]:
    return story(request, pictures(30), steps=100), lambda host: made(host, request, "pictures")


def judging(request: str) -> tuple[Graph, Callable[[ComfyServer], Any]]:
    return judged(request, ["a", "b"], 2, words=300), lambda host: made(host, request, "attempts")


SLACK = 150_000_000
"""Bytes by which the server may be larger after further cancels: an allocator keeps some. A run that stayed
in memory with its models and pictures at each of them would be seen."""


def memory_of(host: ComfyServer) -> int:
    """Resident bytes of the server, after its button for giving memory back."""
    host.free()
    time.sleep(0.5)
    with open(f"/proc/{host.pid}/status", encoding="ascii") as file:
        line = next(line for line in file if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


@pytest.mark.parametrize("phase", [planning, sampling, judging])
def test_after_a_cancel_the_next_prompt_runs_and_memory_returns(host: ComfyServer, phase: Any) -> None:
    sizes = []
    for turn in range(3):
        graph, begun = phase(f"cancelled {phase.__name__} {turn}")
        started = host.queue(graph)
        wait_until(host, lambda begun=begun: begun(host))
        answers_at_once(host, started)
        sizes.append(memory_of(host))
    assert sizes[-1] - sizes[0] < SLACK, sizes
    assert host.get("/queue") == {"queue_running": [], "queue_pending": []}


def test_a_cancelled_plan_is_generated_again(host: ComfyServer) -> None:
    answers_at_once(host, started_running(host, planning("planned again")[0]))
    # Half of a plan must not have been kept anywhere.
    assert "draw: b" in text_of(host.run(planned(reply("b"), request="planned again")), "planned")


def test_a_run_resumes_after_a_cancel_while_sampling(host: ComfyServer) -> None:
    request = "stopped sampling"
    graph, begun = sampling(request)
    started = host.queue(graph)
    wait_until(host, lambda: begun(host))
    answers_at_once(host, started)
    before, finished = made(host, request), len(made(host, request, "pictures"))
    assert 0 < finished < 30 and reasons(journal(host, request))[-1] == "cancelled"
    outputs = host.run(story(request, pictures(finished + 1), steps=100))
    assert before.items() <= made(host, request).items() and len(outputs["out"]["images"]) == finished + 1


def test_a_run_resumes_after_a_cancel_while_judging(host: ComfyServer) -> None:
    request = "stopped judging"
    graph, begun = judging(request)
    started = host.queue(graph)
    wait_until(host, lambda: begun(host))
    time.sleep(0.5)
    answers_at_once(host, started)
    before = made(host, request)
    assert not made(host, request, "verdicts") and reasons(journal(host, request))[-1] == "cancelled"
    host.run(judged(request, ["a", "b"], 2))
    assert before.items() <= made(host, request).items() and len(made(host, request, "attempts")) == 2


@pytest.mark.parametrize("path", ["/health", "/edit"])
def test_the_next_prompt_does_not_wait_for_an_image_service(host: ComfyServer, path: str) -> None:
    with image_service() as service:
        service.hangs_at = path
        sizes = {"width": 0, "height": 0, "steps": 0, "guidance": -1.0}
        generator = node("InterleaveServiceGenerator", url=service.url, timeout=300.0, **sizes)
        started = host.queue(story(f"hangs at {path[1:]}", ["a boat"], generator=generator))
        wait_until(host, service.hanging.is_set)
        answers_at_once(host, started)


# Failures


def test_a_killed_server_resumes(host_home: HostHome, tmp_path: Path) -> None:
    """No word and no image that was finished before a SIGKILL is made again by the next server."""
    graph = judged("killed", pictures(5), 5, steps=25)
    with running(ComfyServer(host_home, tmp_path / "base")) as server:
        server.queue(graph)
        wait_until(server, lambda: made(server, "killed", "verdicts"))
        server.kill()
        before = made(server, "killed")
        assert 1 <= len(made(server, "killed", "verdicts")) < 5
        server.start()
        server.run(graph)
        assert before.items() <= made(server, "killed").items()


def test_a_run_with_a_deleted_folder_is_generated_again(host: ComfyServer) -> None:
    graph = story("deleted", ["a house", "a tree"])
    host.run(graph)
    before = made(host, "deleted").keys()
    folder = journal(host, "deleted")
    shutil.rmtree(folder)
    refused = host.tell("redraw", run=folder.name, step=1)
    assert refused.status_code == 400 and "was not found" in refused.json()["error"]
    assert not folder.exists()
    outputs = host.run(graph)
    assert made(host, "deleted").keys() == before
    assert all((folder / "pictures" / one["filename"]).is_file() for one in outputs["loop"]["images"])


# Nodes that run again although nothing changed, as with --force-output-rerun or after caches are freed


def files_of(folder: Path) -> dict[str, str]:
    """Return the digest of every file below a folder by its path."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_running_again_changes_no_file(host: ComfyServer) -> None:
    """The loop answers from its run folder, and a save or an export is written under the next number."""
    need_checkpoints()
    graph = twin("feedback_round_trip")
    loop = id_of(graph, "InterleaveCriticLoop")
    graph = changed(graph, id_of(graph, "InterleaveSaveTrajectory"), filename_prefix="again/saved")
    page = {**EXPORT, "format": "Markdown", "filename_prefix": "again/page"}
    graph["page"] = node("InterleaveExport", trajectory=[loop, 2], **page)
    graph["board"] = storyboard(loop, 2, cell=64, show="attempts")
    output = host.base / "output"
    first = host.run(graph)
    before = files_of(output)
    second, added = first, set[str]()
    for _ in range(5):
        # The host frees its caches between two prompts, at a moment of its own.
        host.free()
        time.sleep(2)
        second = host.run(graph)
        added = files_of(output).keys() - before.keys()
        if added:
            break
    after = files_of(output)
    assert {name: after.get(name) for name in before} == before
    assert {name.split("_00002_")[0] for name in added} == {"again/saved", "again/page"}
    planner = id_of(graph, "InterleavePlanner")
    assert second.keys() - {planner} == first.keys() - {planner}, "the planner says that its plan is kept"
