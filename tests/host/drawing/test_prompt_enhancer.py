"""A prompt enhancer at Step Generator and Diffusers Generator in the real host, with every kind of agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from support import tiny_pipelines
from support.chat_server import chat_server

from ..graphs.klein import Graph, node, story
from ..server.comfy_server import ComfyServer, HostError
from ..server.pixels import pixels
from ..server.runs import ROUTE, journals

SIZE = (64, 64)
PROMPTS = ["a house", "add a tree"]
LONGER = ["A large red house.", "Add one green tree."]
AGENT = "someone/tiny-enhancer"


def enhanced(request: str, agent: dict[str, Any], **inputs: Any) -> Graph:
    """Return the graph of a story whose generator has this agent as its enhancer."""
    graph = story(request, PROMPTS, SIZE)
    graph["enhancer"] = agent
    links = {name: [value[1:], 0] if str(value).startswith("@") else value for name, value in inputs.items()}
    graph["generator"]["inputs"] |= {"enhancer": ["enhancer", 0], **links}
    return graph


def scripted(*replies: str) -> dict[str, Any]:
    return node("InterleaveTestAgent", replies=json.dumps(replies))


def enhancements(host: ComfyServer, request: str) -> dict[str, dict[str, str]]:
    """Return what the journals of a request have of each prompt."""
    records = [
        json.loads(path.read_text())
        for folder in journals(host, request)
        for path in folder.glob("attempts/*.json")
    ]
    return {record["key"]["prompt"]: record["enhancement"] for record in records if "enhancement" in record}


def test_the_model_gets_the_enhanced_prompts(host: ComfyServer) -> None:
    outputs = host.run(enhanced("with enhancer", scripted(*LONGER)))
    plain = host.run(story("enhanced by hand", LONGER, SIZE))
    for index in (0, 1):
        assert np.array_equal(pixels(host, outputs, index=index), pixels(host, plain, index=index))
    assert enhancements(host, "with enhancer") == {
        prompt: {"prompt": longer, "warning": ""} for prompt, longer in zip(PROMPTS, LONGER, strict=True)
    }
    assert "enhanced: A large red house." in outputs["report"]["text"][0]


def test_the_live_view_has_both_prompts(host: ComfyServer) -> None:
    host.run(enhanced("enhancer shown", scripted(*LONGER)))
    state = httpx.get(f"{host.url}{ROUTE}/live", params={"node": "loop"}, timeout=30).json()
    shown = [one["shown"] for one in state["messages"] if one["shown"]["kind"] == "attempt"]
    assert [one["enhanced"] for one in shown] == LONGER
    assert [one["prompt"] for one in shown] == [[["same", prompt]] for prompt in PROMPTS]


def test_a_second_run_asks_nothing_again(host: ComfyServer) -> None:
    """The script would have no further reply."""
    graph = enhanced("enhancer resumed", scripted(*LONGER))
    first = pixels(host, host.run(graph))
    graph["loop"]["inputs"]["keep"] = "last"
    assert np.array_equal(first, pixels(host, host.run(graph)))
    (folder,) = journals(host, "enhancer resumed")
    assert len(list(folder.glob("attempts/*.json"))) == 2


def test_a_server_gets_the_makers_prompts(host: ComfyServer) -> None:
    with chat_server(LONGER[0]) as server:
        url = server.spec.partition("@")[2]
        remote = node("InterleaveRemoteAgent", base_url=url, model="tiny")
        graph = enhanced(
            "enhancer served", remote, enhancer_prompt="@maker", enhancer_edit_prompt="Edit so: {prompt}"
        )
        graph["maker"] = node("PrimitiveStringMultiline", value="You upsample prompts.\nAlways.")
        host.run(graph)
        asked = [
            [(one["role"], one["content"]) for one in request["messages"]] for request in server.requests
        ]
    assert asked == [
        [("system", "You upsample prompts.\nAlways."), ("user", "a house")],
        [("user", "Edit so: add a tree")],
    ]


def test_a_local_agent_that_is_cut_off_leaves_the_prompt_with_a_warning(host: ComfyServer) -> None:
    """An untrained checkpoint on the host's device; its maker's prompt is a system message."""
    from support.tiny_checkpoint import build_checkpoint

    folder = host.base / "models" / "interleave_agents" / AGENT
    folder.mkdir(parents=True)
    build_checkpoint(folder)
    agent = node("InterleaveLoadAgent", agent=AGENT, max_tokens=4)
    host.run(enhanced("enhancer cut off", agent, enhancer_prompt="You upsample prompts."))
    found = enhancements(host, "enhancer cut off")
    assert [one["prompt"] for one in found.values()] == list(found)
    assert all("cut off after 4 tokens" in one["warning"] for one in found.values()), found
    assert "Requested to load AgentModel" in Path(host.log_path).read_text(errors="replace")


def test_a_text_encoder_of_the_host_enhances(host: ComfyServer) -> None:
    graph = enhanced("enhancer from clip", node("InterleaveHostAgent", clip="@writer"))
    graph["writer"] = node("InterleaveTestClip", reply=LONGER[0], kind="sees", clip="@clip")
    host.run(graph)
    assert {one["prompt"] for one in enhancements(host, "enhancer from clip").values()} == {LONGER[0]}


def test_a_diffusers_pipeline_gets_the_enhanced_prompts(host: ComfyServer) -> None:
    folder = host.base / "models" / "diffusers" / "tiny-enhanced"
    folder.parent.mkdir(parents=True, exist_ok=True)
    tiny_pipelines.stable_diffusion(folder)

    def drawn(request: str, prompts: list[str], **more: Any) -> np.ndarray:
        graph = story(request, prompts, SIZE)
        graph["generator"] = node(
            "InterleaveDiffusersGenerator", pipeline=folder.name, download=False, width=64, height=64,
            steps=2, guidance=-1.0, **more,
        )  # fmt: skip
        graph["enhancer"] = scripted(*LONGER)
        return pixels(host, host.run(graph), index=1)

    own = drawn("pipeline with enhancer", PROMPTS, enhancer="@enhancer")
    assert np.array_equal(own, drawn("pipeline enhanced by hand", LONGER))
    assert set(enhancements(host, "pipeline with enhancer")) == set(PROMPTS)


def test_wrong_inputs_are_reported(host: ComfyServer) -> None:
    graph = story("no enhancer", PROMPTS, SIZE)
    graph["generator"]["inputs"]["enhancer_prompt"] = "You upsample prompts."
    with pytest.raises(HostError, match="no enhancer is connected"):
        host.run(graph)
    with pytest.raises(HostError, match="The prompt enhancer failed: The script has 0 replies"):
        host.run(enhanced("enhancer fails", scripted()))
