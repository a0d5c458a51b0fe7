"""The Judge node in the real host."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ..graphs.klein import Graph, node
from ..graphs.replies import verdict
from ..server.comfy_server import ComfyServer, HostError

WHITE, BLACK = 0xFFFFFF, 0x000000


def judged(*replies: Any, before: bool = False, **inputs: Any) -> Graph:
    """A Judge on a black image with the scripted replies; its outputs as text under their names."""
    graph = {
        "agent": node("InterleaveTestAgent", replies=json.dumps(replies)),
        "after": node("EmptyImage", width=64, height=64, batch_size=1, color=BLACK),
        "before": node("EmptyImage", width=32, height=64, batch_size=1, color=WHITE),
        "judge": node(
            "InterleaveJudge",
            **{
                "agent": "@agent",
                "after": "@after",
                "instruction": "a black page",
                "accept_at": 0.0,
                **inputs,
            },
        ),
    }
    if before:
        graph["judge"]["inputs"]["before"] = ["before", 0]
    for slot, name in enumerate(("success", "probability", "prompt", "reasoning", "text")):
        graph[name] = node("PreviewAny", source=["judge", slot])
    return graph


def said(outputs: dict[str, Any], name: str) -> str:
    return outputs[name]["text"][0]


def test_the_judge_node_outputs_every_part_of_a_verdict(host: ComfyServer) -> None:
    outputs = host.run(judged(verdict(False, "a blacker page", 0.25)))
    assert said(outputs, "success") == "False" and said(outputs, "probability") == "0.25"
    assert said(outputs, "prompt") == "a blacker page" and said(outputs, "reasoning") == "looked"
    text = said(outputs, "text")
    assert text.startswith("Rejected, P(success) 25 %") and "Refined prompt: a blacker page" in text
    assert outputs["judge"]["text"] == [text]


def test_an_accepted_image_keeps_its_prompt(host: ComfyServer) -> None:
    graph = judged(verdict(True, "another", 0.9), before=True, prompt="as drawn")
    outputs = host.run(graph)
    assert said(outputs, "success") == "True" and said(outputs, "prompt") == "as drawn"
    assert "Refined prompt" not in said(outputs, "text")


@pytest.mark.parametrize(("accept_at", "passes"), [(0.0, True), (0.5, True), (0.95, False)])
def test_accept_at_is_the_loop_s_rule(host: ComfyServer, accept_at: float, passes: bool) -> None:
    outputs = host.run(judged(*[verdict(True, "", 0.9)] * 3, accept_at=accept_at))
    assert said(outputs, "success") == str(passes)
    assert ("critic's own verdict: success" in said(outputs, "text")) is not passes


@pytest.mark.parametrize(
    ("strictness", "passes"),
    [
        ("critic's own verdict", True),
        ("lenient", True),
        ("normal", False),
        ("strict", False),
        ("custom", True),
    ],
)
def test_strictness_overrides_accept_at_unless_custom(
    host: ComfyServer, strictness: str, passes: bool
) -> None:
    accept_at = 0.35 if strictness == "custom" else 0.99
    replies = [verdict(True, "", 0.4)] * 5  # one agent serves all cases
    outputs = host.run(judged(*replies, strictness=strictness, accept_at=accept_at))
    assert said(outputs, "success") == str(passes)


def test_a_missing_probability_is_not_invented(host: ComfyServer) -> None:
    outputs = host.run(judged(*[verdict(True)] * 2))
    assert said(outputs, "success") == "True" and "probability" not in outputs
    assert said(outputs, "text").startswith("Accepted") and "P(success)" not in said(outputs, "text")
    assert "had no effect" not in said(outputs, "text")
    strict = host.run(judged(*[verdict(True)] * 2, accept_at=0.8))
    assert said(strict, "success") == "True" and "accept_at had no effect" in said(strict, "text")


def test_an_unreadable_reply_raises_and_is_quoted(host: ComfyServer) -> None:
    with pytest.raises(HostError, match=r"could not be parsed.*lovely picture"):
        host.run(judged("What a lovely picture!", "Such a lovely picture!"))


def test_a_missing_instruction_is_rejected_before_anything_runs(host: ComfyServer) -> None:
    with pytest.raises(HostError, match="instruction is empty") as refused:
        host.queue(judged(verdict(True), instruction="  "))
    faults = json.loads(refused.value.details)["node_errors"]["judge"]["errors"]
    assert [fault["extra_info"]["input_name"] for fault in faults] == ["instruction"]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"instruction": "@blank"}, "instruction is empty"),
        ({"after": "@many"}, "'after': expected one image, got 3"),
    ],
)
def test_an_image_that_cannot_be_judged_raises_an_error(
    host: ComfyServer, inputs: dict[str, str], message: str
) -> None:
    graph = judged(verdict(True), **inputs)
    graph["blank"] = node("PrimitiveString", value="  ")
    graph["many"] = node("EmptyImage", width=64, height=64, batch_size=3, color=BLACK)
    with pytest.raises(HostError, match=message):
        host.run(graph)
