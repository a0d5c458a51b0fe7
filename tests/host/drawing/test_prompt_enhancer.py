"""A prompt enhancer at Step Generator and Diffusers Generator in the real host, with every kind of agent."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from support import tiny_pipelines
from support.chat_server import chat_server

from ..graphs.stories import Graph, node, scripted, story
from ..server.comfy_server import ComfyServer
from ..server.runs import journals, made, pixels, text_of

PROMPTS = ["a house", "add a tree"]
LONGER = ["A large red house.", "Add one green tree."]
AGENT = "someone/tiny-enhancer"


def enhanced(request: str, agent: dict[str, Any], **inputs: Any) -> Graph:
    """Return the graph of a story whose generator has this agent as its enhancer."""
    return story(request, PROMPTS, enhancer="@enhancer", **inputs) | {"enhancer": agent}


def enhancements(host: ComfyServer, request: str) -> dict[str, dict[str, str]]:
    """Return what the journals of a request have of each prompt."""
    records = [
        json.loads(path.read_text())
        for folder in journals(host, request)
        for path in folder.glob("attempts/*.json")
    ]
    return {record["key"]["prompt"]: record["enhancement"] for record in records if "enhancement" in record}


def test_the_model_gets_the_enhanced_prompts_once(host: ComfyServer) -> None:
    graph = enhanced("with enhancer", scripted(LONGER))
    outputs = host.run(graph)
    messages = [one["shown"] for one in host.ask("live", node="loop")["messages"]]
    shown = [one for one in messages if one["kind"] == "attempt"]
    assert [one["enhanced"] for one in shown] == LONGER
    assert [one["prompt"] for one in shown] == [[["same", prompt]] for prompt in PROMPTS]
    plain = host.run(story("enhanced by hand", LONGER))
    for index in (0, 1):
        assert np.array_equal(pixels(host, outputs, index=index), pixels(host, plain, index=index))
    assert enhancements(host, "with enhancer") == {
        prompt: {"prompt": longer, "warning": ""} for prompt, longer in zip(PROMPTS, LONGER, strict=True)
    }
    assert "enhanced: A large red house." in text_of(outputs, "report")
    graph["loop"]["inputs"]["keep"] = "last"
    host.run(graph)  # the script has no further reply
    assert len(made(host, "with enhancer", "attempts")) == 2


def test_a_server_gets_the_makers_prompts(host: ComfyServer) -> None:
    with chat_server(LONGER[0]) as server:
        url = server.spec.partition("@")[2]
        remote = node("InterleaveRemoteAgent", base_url=url, model="tiny")
        prompts = {"enhancer_prompt": "@maker", "enhancer_edit_prompt": "Edit so: {prompt}"}
        graph = enhanced("enhancer served", remote, **prompts)
        graph["maker"] = node("PrimitiveStringMultiline", value="You upsample prompts.\nAlways.")
        host.run(graph)
        asked = [[(one["role"], one["content"]) for one in sent["messages"]] for sent in server.requests]
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


def test_a_text_encoder_of_the_host_enhances(host: ComfyServer) -> None:
    graph = enhanced("enhancer from clip", node("InterleaveHostAgent", clip="@writer"))
    graph["writer"] = node("InterleaveTestClip", reply=LONGER[0], kind="sees", clip="@clip")
    host.run(graph)
    assert {one["prompt"] for one in enhancements(host, "enhancer from clip").values()} == {LONGER[0]}


def test_a_diffusers_pipeline_gets_the_enhanced_prompts(host: ComfyServer) -> None:
    folder = host.base / "models" / "diffusers" / "tiny-enhanced"
    folder.parent.mkdir(parents=True, exist_ok=True)
    tiny_pipelines.stable_diffusion(folder)
    pipeline = {"pipeline": folder.name, "download": False, "steps": 2, "guidance": -1.0}
    generator = node("InterleaveDiffusersGenerator", width=64, height=64, enhancer="@enhancer", **pipeline)
    graph = story("pipeline with enhancer", PROMPTS, generator=generator)
    host.run(graph | {"enhancer": scripted(LONGER)})
    assert set(enhancements(host, "pipeline with enhancer")) == set(PROMPTS)
