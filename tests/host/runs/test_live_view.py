"""Messages to a browser about a run in the real host, its allowed requests, and the effect of picks."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from ..graphs.klein import Graph, story
from ..graphs.replies import verdict
from ..server.comfy_server import ComfyServer
from ..server.listener import PREVIEW_WITH_METADATA, Heard, Listener
from ..server.runs import ROUTE, journals

SIZE = (128, 128)
REASONING = "The house is too small for the picture, and the tree stands before the door. " * 8


@pytest.fixture
def listener(host: ComfyServer) -> Iterator[Listener]:
    listening = Listener(host.url)
    yield listening
    listening.close()


def long_verdict(success: bool, refined: str, probability: float) -> dict[str, Any]:
    reply = verdict(success, refined, probability)
    return reply | {"text": reply["text"].replace("looked", REASONING)}


def judged_story(request: str, prompts: list[str], replies: list[Any], **settings: Any) -> Graph:
    return story(request, prompts, SIZE, critic=json.dumps(replies), max_attempts=3, **settings)


def queued_with_previews(host: ComfyServer, graph: Graph) -> dict[str, Any]:
    body = {"prompt": graph, "client_id": "tests", "extra_data": {"preview_method": "latent2rgb"}}
    return host.wait(host.post("/prompt", body).json()["prompt_id"])


def newest(messages: list[dict[str, Any]]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The newest of every key, by the rule that a front end follows."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for message in sorted(messages, key=lambda one: one["seq"]):
        shown = message["shown"]
        found[shown["kind"], shown.get("step"), shown.get("attempt")] = shown
    return found


def asked(host: ComfyServer, path: str, **query: str) -> httpx.Response:
    return httpx.get(f"{host.url}{ROUTE}/{path}", params=query, timeout=30)


def state_of(host: ComfyServer, node: str = "loop") -> dict[str, Any]:
    return asked(host, "live", node=node).raise_for_status().json()


def chosen_images(outputs: dict[str, Any]) -> list[str]:
    return [image["filename"] for image in outputs["loop"]["images"]]


def test_a_browser_hears_everything_in_few_bytes(host: ComfyServer, listener: Listener) -> None:
    replies = [
        long_verdict(False, f"{name}, larger", 0.2) for name in ("a house", "a house", "a house", "a tree")
    ]
    replies.append(long_verdict(True, "", 0.9))
    entry = queued_with_previews(host, judged_story("few bytes", ["a house", "a tree"], replies, steps=30))
    assert entry["status"]["status_str"] == "success"
    listener.wait_for(lambda message: message.kind == "execution_success")
    shown_messages = listener.shown()
    state = newest([message.data for message in shown_messages])
    assert state["run", None, None]["status"] == "finished" and state["run", None, None]["share"] == 1.0
    assert state["step", 1, None]["sentence"].startswith("Never accepted: 3 attempts used up")
    assert state["step", 2, None]["sentence"] == "Accepted at attempt 2"
    attempt = state["attempt", 2, 1]
    assert (attempt["tone"], attempt["probability"]) == ("good", 0.9)
    assert attempt["prompt"] == [["same", "a tree"], ["ins", ", larger"]]
    assert REASONING[:200].strip() in attempt["reasoning"]
    assert any(message.data["shown"]["kind"] == "words" for message in shown_messages), (
        "the critic is heard while it speaks"
    )
    previews = [message for message in listener.heard if message.data == PREVIEW_WITH_METADATA]
    assert len(previews) > 10
    bytes_of: dict[tuple[int, int], int] = defaultdict(int)
    for message in shown_messages:
        shown = message.data["shown"]
        bytes_of[shown.get("step", 0), shown.get("attempt", -1)] += message.size
        assert message.size < 8_000
    assert max(bytes_of.values()) < 20_000
    everything = sum(message.size for message in listener.heard)
    ours, theirs = sum(m.size for m in shown_messages), sum(m.size for m in previews)
    print(f"bytes: {everything} in all, {ours} ours, {theirs} previews")
    assert everything / 2 < 1_000_000


def test_a_late_client_gets_the_state(host: ComfyServer, listener: Listener) -> None:
    graph = judged_story("in the middle", ["a house"], [long_verdict(True, "", 0.9)])
    graph["critic"]["inputs"]["seconds_per_word"] = 0.03
    started = host.queue(graph)
    listener.wait_for(lambda message: shows(message, "words") and message.data["shown"]["at"] > 0)
    state = newest(state_of(host)["messages"])
    assert state["run", None, None]["status"] == "running"
    assert state["attempt", 1, 0]["status"] == "judging" and state["attempt", 1, 0]["image"]
    assert REASONING.startswith(state["words", 1, 0]["text"].removeprefix("<think>")[:40])
    image = state["attempt", 1, 0]["image"]
    folder = f"interleave-thinker/{state['run', None, None]['run']}/pictures"
    picture = host.image({"filename": f"{image['digest']}.png", "subfolder": folder, "type": "output"})
    assert picture.size == (image["width"], image["height"]) == SIZE
    host.wait(started)
    streamed = newest([message.data for message in listener.shown()])
    assert newest(state_of(host)["messages"]) == {
        key: shown for key, shown in streamed.items() if key[0] != "words"
    }, "the state equals the streamed messages; the text is now the verdict's reasoning"


def shows(message: Heard, kind: str) -> bool:
    return message.kind == "interleave-thinker" and message.data["shown"]["kind"] == kind


def test_a_picked_attempt_is_used_with_the_next_run(host: ComfyServer) -> None:
    replies = [
        verdict(False, "a house, better", 0.3), verdict(True, "", 0.9), verdict(True, "", 0.8),
        verdict(True, "", 0.7),
    ]  # fmt: skip
    graph = judged_story("picked", ["a house", "a tree"], replies)
    first = host.run(graph)
    (folder,) = journals(host, "picked")
    state = newest(asked(host, "run", run=folder.name).raise_for_status().json()["messages"])
    refused = state["attempt", 1, 0]["image"]["digest"]
    entry = host.wait(host.queue(graph))
    assert executed(entry) == set(), "nothing changed, nothing runs"
    answer = host.post(f"{ROUTE}/choice", {"run": folder.name, "step": 1, "picture": refused})
    assert answer.status_code == 200 and answer.json()["choices"] == {"1": refused}
    before = {path.name for path in (folder / "attempts").iterdir()}
    graph["critic"]["inputs"]["replies"] = json.dumps(replies)  # the scripted critic counts its replies
    second = host.run(graph)
    assert chosen_images(second)[0] == f"{refused}.png" != chosen_images(first)[0]
    assert chosen_images(second)[1] != chosen_images(first)[1]
    assert "Attempt 1 picked by hand" in second["report"]["text"][0]
    assert len({path.name for path in (folder / "attempts").iterdir()} - before) == 1, (
        "only step 2 was generated"
    )
    assert executed(host.wait(host.queue(graph))) == set()
    (folder / "choices.json").unlink()
    assert chosen_images(host.run(graph)) == chosen_images(first), "editing only the file has the same effect"


def executed(entry: dict[str, Any]) -> set[str]:
    """Nodes of a prompt that really ran."""
    cached = next(body["nodes"] for kind, body in entry["status"]["messages"] if kind == "execution_cached")
    return set(entry["prompt"][2]) - set(cached)


def test_feedback_on_an_attempt_is_kept(host: ComfyServer) -> None:
    host.run(judged_story("worded", ["a house"], [verdict(True, "", 0.9)]))
    (folder,) = journals(host, "worded")
    word = {"step": 1, "attempt": 0, "accepted": False, "better_prompt": "a red house <b>"}
    answer = host.post(f"{ROUTE}/feedback", {"run": folder.name, "feedback": word})
    assert answer.status_code == 200, answer.text
    (noted,) = state_of(host)["feedback"]
    assert noted.items() >= word.items() and (folder / "feedback.jsonl").exists()
    bad = host.post(f"{ROUTE}/feedback", {"run": folder.name, "feedback": word | {"step": 7}})
    assert bad.status_code == 400 and "step 7" in bad.json()["error"].lower()
