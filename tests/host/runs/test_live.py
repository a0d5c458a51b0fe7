"""Messages to a browser about a run in the real host, of Critic Loop and of Attempt Start and Attempt End.

Those of a pair have the id of Attempt End, whichever copy of the body generates.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from typing import Any

from ..graphs.attempt_pairs import pair
from ..graphs.stories import changed, node, story, verdict
from ..server.comfy_server import ComfyServer
from ..server.listener import PREVIEW_WITH_METADATA, Listener, newest, shows
from ..server.runs import failure, journal, made, ran_in, wait_until

SIZE = (128, 128)
REASONING = "The house is too small for the picture, and the tree stands before the door. " * 8
RUN = ("run", None, None)


def long_verdict(success: bool, refined: str, probability: float) -> dict[str, Any]:
    reply = verdict(success, refined, probability)
    return reply | {"text": reply["text"].replace("looked", REASONING)}


def state_of(host: ComfyServer, at: str = "close") -> dict[tuple[Any, ...], dict[str, Any]]:
    return newest(host.ask("live", node=at)["messages"])


def slow_agent(seconds_a_word: float) -> dict[str, Any]:
    return node("InterleaveTestSlowAgent", seconds_a_word=seconds_a_word, words=200)


def test_a_browser_hears_everything_in_few_bytes(host: ComfyServer, listener: Listener) -> None:
    names = ("a house", "a house", "a house", "a tree")
    replies = [long_verdict(False, f"{name}, larger", 0.2) for name in names] + [long_verdict(True, "", 0.9)]
    graph = story("few bytes", ["a house", "a tree"], SIZE, critic=replies, max_attempts=3, steps=30)
    body = {"prompt": graph, "client_id": "tests", "extra_data": {"preview_method": "latent2rgb"}}
    host.wait(host.post("/prompt", body).json()["prompt_id"])
    messages = listener.shown()
    state = newest([message.data for message in messages])
    assert state[RUN]["status"] == "finished" and state[RUN]["share"] == 1.0
    assert state["step", 1, None]["sentence"].startswith("Never accepted: 3 attempts used up")
    assert state["step", 2, None]["sentence"] == "Accepted at attempt 2"
    attempt = state["attempt", 2, 1]
    assert (attempt["tone"], attempt["probability"]) == ("good", 0.9)
    assert attempt["prompt"] == [["same", "a tree"], ["ins", ", larger"]]
    assert REASONING[:200].strip() in attempt["reasoning"]
    assert any(shows(message, "words") for message in messages), "the critic is heard while it speaks"
    previews = [message for message in listener.heard if message.data == PREVIEW_WITH_METADATA]
    assert len(previews) > 10
    bytes_of: dict[tuple[int, int], int] = defaultdict(int)
    for message in messages:
        shown = message.data["shown"]
        bytes_of[shown.get("step", 0), shown.get("attempt", -1)] += message.size
        assert message.size < 8_000
    assert max(bytes_of.values()) < 20_000
    assert sum(message.size for message in listener.heard) / 2 < 1_000_000


def test_a_late_client_gets_the_state(host: ComfyServer, listener: Listener) -> None:
    critic = [long_verdict(True, "", 0.9)]
    graph = story("in the middle", ["a house"], SIZE, critic=critic, max_attempts=3)
    started = host.queue(changed(graph, "critic", seconds_per_word=0.03))
    listener.wait_for(lambda message: shows(message, "words") and message.data["shown"]["at"] > 0)
    state = state_of(host, "loop")
    assert state[RUN]["status"] == "running"
    assert state["attempt", 1, 0]["status"] == "judging"
    assert REASONING.startswith(state["words", 1, 0]["text"].removeprefix("<think>")[:40])
    image = state["attempt", 1, 0]["image"]
    folder = f"interleave-thinker/{state[RUN]['run']}/pictures"
    picture = host.image({"filename": f"{image['digest']}.png", "subfolder": folder, "type": "output"})
    assert picture.size == (image["width"], image["height"]) == SIZE
    host.wait(started)
    streamed = newest([message.data for message in listener.shown()])
    assert state_of(host, "loop") == {key: shown for key, shown in streamed.items() if key[0] != "words"}


# Attempt Start and Attempt End


def test_every_attempt_of_a_pair_is_sent_once_in_few_bytes(host: ComfyServer, listener: Listener) -> None:
    host.run(pair("heard pair", 3))
    messages = listener.shown()
    assert {message.data["node"] for message in messages} == {"close"}
    state = newest([message.data for message in messages])
    assert state[RUN]["status"] == "finished"
    assert state["step", 1, None]["sentence"] == "Accepted at attempt 3"
    attempts = [state["attempt", 1, number] for number in range(3)]
    assert [one["outcome"] for one in attempts] == ["rejected", "rejected", "accepted"]
    assert all(one["image"] and one["seconds"] > 0 and not one["reused"] for one in attempts)
    shown = [message.data["shown"] for message in messages if shows(message, "attempt")]
    statuses = Counter((one["attempt"], one["status"]) for one in shown)
    assert statuses == {(number, what): 1 for number in range(3) for what in ("drawing", "judging", "done")}
    assert state_of(host) == {key: one for key, one in state.items() if key[0] != "words"}


def test_the_first_attempt_is_shown_while_it_is_made(host: ComfyServer, listener: Listener) -> None:
    graph = pair("slow pair", None, 1, paint={"seconds": 1.0, "batch": 2, "vary": True})
    started = host.queue(graph | {"agent": slow_agent(0.01)})
    listener.wait_for(lambda message: shows(message, "attempt"))
    state = state_of(host)
    assert state[RUN]["status"] == "running"
    assert state[RUN]["line"] == "Step 1, attempt 1 of 1: generating"
    listener.wait_for(lambda message: shows(message, "words") and message.data["shown"]["at"] > 0)
    state = state_of(host)
    assert state["attempt", 1, 0]["status"] == "judging"
    assert [state["attempt", 1, number]["of"] for number in (0, 1)] == [2, 2]
    assert state["words", 1, 0]["text"].startswith("<think>word")
    host.wait(started)
    assert state_of(host)[RUN]["tries"] == 2


def test_cancelling_in_the_body_is_shown_and_the_next_run_resumes(host: ComfyServer) -> None:
    graph = pair("stopped pair", None, 3, paint={"seconds": 0.5})
    before = ran_in(host).count("paint")
    started = host.queue(graph)
    wait_until(host, lambda: ran_in(host).count("paint") == before + 2)
    host.post("/interrupt")
    host.wait(started)
    time.sleep(0.3)
    state = state_of(host)
    assert state[RUN]["status"] == "cancelled"
    assert state[RUN]["line"] == "Step 1, attempt 2 of 3: stopped"
    assert state["attempt", 1, 0]["status"] == "done"
    host.run(graph)
    state = state_of(host)
    assert state[RUN]["status"] == "finished"
    assert [state["attempt", 1, number]["reused"] for number in range(3)] == [True, False, False]


def test_cancelling_while_judging_cancels_the_run(host: ComfyServer, listener: Listener) -> None:
    started = host.queue(pair("judged pair", None, 3) | {"agent": slow_agent(0.05)})
    listener.wait_for(lambda message: shows(message, "words"))
    host.post("/interrupt")
    host.wait(started)
    state = state_of(host)
    assert state[RUN]["status"] == "cancelled"
    assert state["step", 1, None]["sentence"] == "Cancelled after 1 attempt, attempt 1 kept"


def test_a_failure_in_the_body_or_of_the_critic_is_shown(host: ComfyServer) -> None:
    failure(host, pair("failing pair", 1, paint={"batch": 0}), "InterleaveTestPaint")
    time.sleep(0.3)
    assert state_of(host)[RUN]["line"] == "Step 1, attempt 1 of 5: stopped"
    graph = pair("failing critic of a pair", replies=[verdict(False, "another")])
    failure(host, graph, r"Two judgments in a row failed.*has 1 replies.*images are saved")
    assert len(made(host, "failing critic of a pair", "attempts")) == 3
    assert state_of(host)[RUN]["status"] == "failed"


def test_a_batch_is_shown_and_recorded_as_candidates(host: ComfyServer) -> None:
    replies = [verdict(False, "better", probability) for probability in (0.2, 0.4, 0.1)]
    host.run(pair("live batch", None, 1, replies, paint={"batch": 3, "vary": True}))
    state = state_of(host)
    attempts = [state["attempt", 1, number] for number in range(3)]
    assert [(one["place"], one["of"]) for one in attempts] == [(0, 3), (1, 3), (2, 3)]
    assert len({one["seed"] for one in attempts}) == 1
    assert len({one["image"]["digest"] for one in attempts}) == 3
    assert state["step", 1, None]["chosen"] == 1
    assert len(made(host, "live batch", "attempts")) == 1, "one batch"
    assert len(made(host, "live batch", "verdicts")) == 3, "three judgements"
    replayed = newest(host.ask("run", run=journal(host, "live batch").name)["messages"])
    assert [replayed["attempt", 1, number]["of"] for number in range(3)] == [3, 3, 3]
