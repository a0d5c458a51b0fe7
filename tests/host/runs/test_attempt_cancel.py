"""Cancelling Attempt Start and Attempt End, in the body and while the critic generates."""

from __future__ import annotations

import time

import pytest

from ..graphs.attempt_pairs import pair, with_body, without
from ..graphs.klein import node
from ..server.comfy_server import ComfyServer, HostError
from ..server.runs import ran_in


def waited_for(host: ComfyServer, line: str, times: int) -> None:
    """Wait until a test node has written this line `times` times."""
    deadline = time.monotonic() + 60
    while ran_in(host).count(line) < times:
        assert "Exception during processing" not in host.log_tail(8), host.log_tail()
        assert time.monotonic() < deadline, host.log_tail()
        time.sleep(0.02)


def cancel(host: ComfyServer, started: str) -> None:
    pressed = time.monotonic()
    host.post("/interrupt")
    entry = host.wait(started)
    assert [kind for kind, _ in entry["status"]["messages"]][-1] == "execution_interrupted"
    assert time.monotonic() - pressed < 15, "the critic's reply alone would take 20 s"


def test_cancelling_in_the_body_keeps_earlier_attempts(host: ComfyServer) -> None:
    graph = pair("cancelled body", None, 4)
    slow = with_body(graph, "paint", seconds=0.4)
    before = ran_in(host).count("paint")
    started = host.queue(slow)
    waited_for(host, "paint", before + 2)
    cancel(host, started)
    drawn = ran_in(host).count("paint")
    outputs = host.run(slow)
    assert ran_in(host).count("paint") - drawn == 4 - (drawn - before - 1)
    assert "4 attempts used up" in outputs["text"]["text"][0]


def test_cancelling_while_judging_stops_within_a_token(host: ComfyServer) -> None:
    graph = pair("cancelled judge", None, 3)
    graph["agent"] = node("InterleaveTestSlowAgent", seconds_a_word=0.05, words=400)
    before = ran_in(host).count("ask")
    started = host.queue(graph)
    waited_for(host, "ask", before + 1)
    cancel(host, started)
    painted = ran_in(host).count("paint")
    graph["agent"] = node("InterleaveTestSlowAgent", seconds_a_word=0.0, words=1)
    assert "3 attempts used up" in host.run(graph)["text"]["text"][0]
    assert ran_in(host).count("paint") - painted == 2


def test_the_server_rejects_attempt_end_without_attempt_start(host: ComfyServer) -> None:
    with pytest.raises(HostError, match="opened"):
        host.run(without(pair("a boat", 1), "close", "opened"))
