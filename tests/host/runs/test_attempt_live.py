"""Live messages of Attempt Start and Attempt End in the real host: those of a Critic Loop.

They have the id of Attempt End, whichever copy of the body generates.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from ..graphs.attempt_pairs import pair, with_body
from ..graphs.klein import Graph, node
from ..graphs.replies import verdict
from ..server.comfy_server import ComfyServer, HostError
from ..server.listener import Heard, Listener
from ..server.runs import ROUTE, journals, ran_in, wait_until

Shown = dict[tuple[Any, ...], dict[str, Any]]


@pytest.fixture
def listener(host: ComfyServer) -> Iterator[Listener]:
    listening = Listener(host.url)
    yield listening
    listening.close()


def newest(messages: list[dict[str, Any]]) -> Shown:
    """The newest of every key, by the rule that a front end follows."""
    found: Shown = {}
    for message in sorted(messages, key=lambda one: one["seq"]):
        shown = message["shown"]
        found[shown["kind"], shown.get("step"), shown.get("attempt")] = shown
    return found


def state_of(host: ComfyServer, at: str = "close") -> Shown:
    answer = httpx.get(f"{host.url}{ROUTE}/live", params={"node": at}, timeout=30).raise_for_status()
    return newest(answer.json()["messages"])


def heard_of(listener: Listener) -> list[Heard]:
    listener.wait_for(lambda message: message.kind == "execution_success")
    return listener.shown()


def slow_agent(graph: Graph, seconds_a_word: float) -> Graph:
    return {**graph, "agent": node("InterleaveTestSlowAgent", seconds_a_word=seconds_a_word, words=200)}


def test_every_attempt_is_sent_once_in_few_bytes(host: ComfyServer, listener: Listener) -> None:
    host.run(pair("heard pair", 3))
    messages = heard_of(listener)
    assert {message.data["node"] for message in messages} == {"close"}
    state = newest([message.data for message in messages])
    assert state["run", None, None]["status"] == "finished"
    assert state["step", 1, None]["sentence"] == "Accepted at attempt 3"
    attempts = [state["attempt", 1, number] for number in range(3)]
    assert [one["outcome"] for one in attempts] == ["rejected", "rejected", "accepted"]
    assert not any(one["reused"] for one in attempts), "a new image is not marked as reused"
    assert all(one["image"] and one["seconds"] > 0 for one in attempts)
    statuses = Counter(
        (one.data["shown"]["attempt"], one.data["shown"]["status"])
        for one in messages
        if one.data["shown"]["kind"] == "attempt"
    )
    assert statuses == {(number, what): 1 for number in range(3) for what in ("drawing", "judging", "done")}
    sizes: dict[Any, int] = defaultdict(int)
    for message in messages:
        sizes[message.data["shown"].get("attempt")] += message.size
    assert max(sizes.values()) < 20_000
    print(f"bytes per attempt: {sum(message.size for message in messages) / 3:.0f}")
    assert state_of(host) == {key: one for key, one in state.items() if key[0] != "words"}


def test_the_first_attempt_is_shown_while_it_is_generated_and_judged(
    host: ComfyServer, listener: Listener
) -> None:
    graph = slow_agent(with_body(pair("slow pair", None, 1), "paint", seconds=1.0, batch=2, vary=True), 0.01)
    started = host.queue(graph)
    listener.wait_for(lambda message: shows(message, "attempt"))
    state = state_of(host)
    assert state["run", None, None]["status"] == "running"
    assert state["run", None, None]["line"] == "Step 1, attempt 1 of 1: generating"
    listener.wait_for(lambda message: shows(message, "words") and message.data["shown"]["at"] > 0)
    state = state_of(host)
    assert state["attempt", 1, 0]["status"] == "judging"
    assert [state["attempt", 1, number]["of"] for number in (0, 1)] == [2, 2]
    assert state["words", 1, 0]["text"].startswith("<think>word")
    host.wait(started)
    assert state_of(host)["run", None, None]["tries"] == 2


def shows(message: Heard, kind: str) -> bool:
    return message.kind == "interleave-thinker" and message.data["shown"]["kind"] == kind


def test_cancelling_in_the_body_is_shown_and_the_next_run_resumes(host: ComfyServer) -> None:
    graph = with_body(pair("stopped pair", None, 3), "paint", seconds=0.5)
    before = ran_in(host).count("paint")
    started = host.queue(graph)
    wait_until(host, lambda: ran_in(host).count("paint") == before + 2)
    host.post("/interrupt")
    host.wait(started)
    time.sleep(0.3)
    state = state_of(host)
    assert state["run", None, None]["status"] == "cancelled"
    assert state["run", None, None]["line"] == "Step 1, attempt 2 of 3: stopped"
    assert state["attempt", 1, 0]["status"] == "done"
    host.run(graph)
    state = state_of(host)
    assert state["run", None, None]["status"] == "finished"
    assert [state["attempt", 1, number]["reused"] for number in range(3)] == [True, False, False]


def test_cancelling_while_judging_cancels_the_run(host: ComfyServer, listener: Listener) -> None:
    started = host.queue(slow_agent(pair("judged pair", None, 3), 0.05))
    listener.wait_for(lambda message: shows(message, "words"))
    host.post("/interrupt")
    host.wait(started)
    state = state_of(host)
    assert state["run", None, None]["status"] == "cancelled"
    assert state["step", 1, None]["sentence"] == "Cancelled after 1 attempt, attempt 1 kept"


def test_a_failure_in_the_body_is_shown(host: ComfyServer) -> None:
    with pytest.raises(HostError, match="InterleaveTestPaint"):
        host.run(with_body(pair("failing pair", 1), "paint", batch=0))
    time.sleep(0.3)
    assert state_of(host)["run", None, None]["line"] == "Step 1, attempt 1 of 5: stopped"


def test_a_batch_is_shown_and_recorded_as_candidates(host: ComfyServer) -> None:
    replies = [verdict(False, "better", probability) for probability in (0.2, 0.4, 0.1)]
    graph = with_body(pair("live batch", None, 1, replies=replies), "paint", batch=3, vary=True)
    host.run(graph)
    state = state_of(host)
    attempts = [state["attempt", 1, number] for number in range(3)]
    assert [(one["place"], one["of"]) for one in attempts] == [(0, 3), (1, 3), (2, 3)]
    assert len({one["seed"] for one in attempts}) == 1
    assert len({one["image"]["digest"] for one in attempts}) == 3
    assert state["step", 1, None]["chosen"] == 1
    (folder,) = journals(host, "live batch")
    assert len(list((folder / "attempts").iterdir())) == 1, "one batch"
    assert len(list((folder / "verdicts").iterdir())) == 3, "three judgements"
    answer = httpx.get(f"{host.url}{ROUTE}/run", params={"run": folder.name}).raise_for_status()
    replayed = newest(answer.json()["messages"])
    assert [replayed["attempt", 1, number]["of"] for number in range(3)] == [3, 3, 3]


def test_a_failed_critic_stops_the_attempts(host: ComfyServer) -> None:
    with pytest.raises(HostError, match=r"Two judgements in a row failed.*has 1 replies.*images are saved"):
        host.run(pair("failing pair", None, replies=[verdict(False, "another")]))
    (folder,) = journals(host, "failing pair")
    assert len(list((folder / "attempts").iterdir())) == 3
    assert state_of(host)["run", None, None]["status"] == "failed"
