"""Agents in the real host: found, loaded, used as critics, asked over a server, or from a text encoder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.chat_server import ChatServer, chat_server
from support.fake_llama_server import starts_of, write_agent, write_program
from support.small_families import save_family

from interleave_thinker.backend.core.prompts.prompt_set import PromptSet

from ..graphs.examples import CHECKPOINTS, REQUEST, need_checkpoints
from ..graphs.stories import Graph, changed, loaders, node, reply, shown, story
from ..server.comfy_server import ComfyServer
from ..server.runs import answers_at_once, failure, journal, started_running, text_of, trajectory, wait_until

AGENT, GGUF = "someone/tiny-agent", "gguf/tiny-Q8_0.gguf"
PLAN = reply("a boat")
LOADED = "Requested to load AgentModel"
UNREADABLE = "Two verdicts in a row could not be parsed"


@pytest.fixture(scope="module", autouse=True)
def agent(host: ComfyServer) -> Path:
    """An untrained checkpoint of the real architecture in the host's agent folder."""
    from support.tiny_checkpoint import build_checkpoint

    need_checkpoints()
    folder = host.base / "models" / "interleave_agents" / AGENT
    folder.mkdir(parents=True)
    return build_checkpoint(folder)


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    with chat_server(PLAN) as running:
        yield running


@pytest.fixture(scope="module")
def model(host: ComfyServer) -> Path:
    return write_agent(host.base / "models" / "interleave_agents" / "gguf")


@pytest.fixture(scope="module")
def program(host: ComfyServer, model: Path) -> Path:
    """A stand-in for llama.cpp's server."""
    host.llama_server.parent.mkdir(exist_ok=True)
    return write_program(host.llama_server.parent, text=PLAN)


def load(name: str, **inputs: Any) -> dict[str, Any]:
    return node("InterleaveLoadAgent", agent=name, **inputs)


def planning(agent: dict[str, Any]) -> Graph:
    """Return a graph that plans with an agent."""
    request = f"a boat {agent['inputs']}"
    planner = node("InterleavePlanner", agent="@agent", request=request)
    return {"agent": agent, "planner": planner, "text": shown("planner", 1)}


def judged(request: str, agent: dict[str, Any], **loop: Any) -> Graph:
    """Return a graph of one step that an agent judges."""
    return story(request, ["a house"], critic=agent, **{"max_attempts": 2, **loop})


def options(host: ComfyServer, name: str) -> list[str]:
    return host.inputs_of("InterleaveLoadAgent")[name][1]["options"]


# Load Agent


def test_only_checkpoints_are_offered(host: ComfyServer, agent: Path, model: Path) -> None:
    other = agent.parent / "not-an-agent"
    other.mkdir()
    (other / "config.json").write_text('{"model_type": "llama"}')
    (agent.parent / "a-text-file").write_text("not a folder")
    elsewhere = host.base / "elsewhere" / "agents" / "in-extra-paths"
    elsewhere.parent.mkdir(parents=True)
    shutil.copytree(CHECKPOINTS / "planner", elsewhere)
    names = options(host, "agent")
    assert names[:2] == ["tiny world planner", "tiny world critic"]
    assert {AGENT, "in-extra-paths", GGUF} <= set(names)
    assert not any(part in name for name in names for part in ("not-an-agent", "text-file", "mmproj"))
    about = host.get("/object_info/InterleaveLoadAgent")["InterleaveLoadAgent"]["description"]
    assert str(host.base / "models" / "interleave_agents") in about and str(elsewhere.parent) in about
    graph = changed(planning(load("in-extra-paths")), "planner", request=REQUEST)
    assert "red house" in text_of(host.run(graph))


def test_cancel_stops_an_agent_in_the_middle_of_a_reply(host: ComfyServer) -> None:
    before = host.log().count(LOADED)
    started = host.queue(judged("interrupted judge", load(AGENT), max_attempts=5))
    wait_until(host, lambda: host.log().count(LOADED) > before)
    answers_at_once(host, started)


def test_a_planner_as_critic_stops_the_run_and_a_critic_resumes_it(host: ComfyServer) -> None:
    graph = judged("planner as critic", load("tiny world planner"))
    graph = changed(graph, "plan", prompts="a red house in the middle")
    failure(host, graph, r"Two verdicts in a row .* Critic: .*planner.*images are saved")
    report = text_of(host.run(changed(graph, "critic", agent="tiny world critic")), "report")
    assert "attempt 2: " in report


def test_candidates_are_judged_together(host: ComfyServer) -> None:
    """Judged together, each image has the same share of the total time."""
    host.run(judged("together", load("tiny world critic"), max_attempts=4, candidates=4))
    records = [json.loads(path.read_text()) for path in journal(host, "together").glob("verdicts/*.json")]
    assert len(records) == 4 and len({one["seconds"] for one in records}) == 1


@pytest.mark.parametrize(
    ("of_agent", "of_loop", "accept_at"),
    [("lenient", {}, 0.3), ("strict", {"strictness": "normal", "accept_at": 0.9}, 0.5)],
)
def test_strictness_of_the_agent_applies_if_the_loop_has_none(
    host: ComfyServer, of_agent: str, of_loop: dict[str, Any], accept_at: float | None
) -> None:
    host.run(judged("strict", load("tiny world critic", strictness=of_agent), **of_loop))
    assert trajectory(journal(host, "strict"))["settings"]["accept_at"] == accept_at


def test_precisions_that_need_a_missing_library_are_not_offered(host: ComfyServer) -> None:
    offered = options(host, "precision")
    assert offered[:4] == ["auto", "bf16", "fp16", "fp32"]
    words = "built-in agents do not support" if "4-bit" in offered else r"precision: '4-bit' not in"
    failure(host, planning(load("tiny world planner", precision="4-bit")), words)


def need_free_replies(host: ComfyServer) -> None:
    """Skip where the host's llguidance makes even random weights write a verdict."""
    look = "import importlib.util, sys; sys.exit(importlib.util.find_spec('llguidance') is not None)"
    if subprocess.run([str(host.home.python), "-c", look], check=False).returncode:
        pytest.skip("The host has llguidance, so random weights write verdicts.")


def test_an_untested_family_is_brought_onto_the_device_and_named(host: ComfyServer, agent: Path) -> None:
    """Random weights write no verdict, which the loop reports; all else works as with any agent."""
    need_free_replies(host)
    save_family("glm4v", agent.parent / "tiny-glm")
    before = host.log().count(LOADED)
    graph = judged("untested family", load("someone/tiny-glm", max_tokens=64))
    failure(host, graph, rf"{UNREADABLE}.*tiny-glm")
    assert host.log().count(LOADED) == before + 1
    assert "tiny-glm: the family glm4v is untested." in host.log()


def test_a_planner_in_a_critics_socket_is_refused_before_it_is_loaded(host: ComfyServer, agent: Path) -> None:
    folder = shutil.copytree(agent, agent.parent / "tiny-planner")
    card = {"format": "interleave-agent-card", "version": 1, "role": "planner"}
    (folder / "agent.json").write_text(json.dumps(card))
    (folder / "model.safetensors").write_bytes(b"not weights: an error that names them would come too late")
    said = r"InterleaveLoadAgent: tiny-planner was trained as a planner .* cannot be used as a critic"
    failure(host, judged("planner judges", load("someone/tiny-planner")), said)
    (folder / "agent.json").write_text(json.dumps(card | {"role": "critic"}))
    failure(
        host, planning(load("someone/tiny-planner")), "trained as a critic .* cannot be used as a planner"
    )


def test_a_published_critic_without_its_prompts_is_named(host: ComfyServer, agent: Path) -> None:
    need_free_replies(host)
    name = "InterleaveThinker-Critic-8B"
    folder = shutil.copytree(agent, agent.parent / name)
    line = f"{name} is a published reinforced critic (strict). Its folder does not contain"
    critic = load(f"someone/{name}", max_tokens=32)
    failure(host, judged("published critic", critic), UNREADABLE)
    assert host.log().count(line) == 1, "said once, by Load Agent, and not again by the critic"
    assert f"prompts import InterleaveThinker --to {folder}" in host.log()
    prompts = agent.parent / "their-prompts"
    prompts.mkdir()
    for file in ("planner_text", "planner_images"):
        (prompts / f"{file}.txt").write_text("Plan {text_input}.")
    (prompts / "critic.txt").write_text("Judge {original_instruction} and {rewritten_prompt}.")
    chosen = {"prompts": "someone/their-prompts"}
    failure(host, changed(judged("with prompts", critic), "critic", **chosen), UNREADABLE)
    shutil.copytree(prompts, folder / "prompt_set")
    failure(host, judged("imported prompts", critic), UNREADABLE)
    assert host.log().count(line) == 1, "the prompt set was chosen, then imported"


def test_a_chosen_prompt_set_is_what_the_agent_is_asked_with(host: ComfyServer, agent: Path) -> None:
    given = agent.parent / "short-prompts"
    shutil.copytree(CHECKPOINTS / "critic" / "prompt_set", given)
    template = (given / "critic.txt").read_text(encoding="utf-8")
    (given / "critic.txt").write_text(f"{template} ", encoding="utf-8")
    expected = PromptSet.load(given).digest
    # `notes`: an input of an earlier release, which is skipped.
    for inputs in ({"notes": "none"}, {"prompts": "someone/short-prompts"}):
        host.run(judged("asked with", load("tiny world critic", **inputs)))
        asked = json.dumps(trajectory(journal(host, "asked-with")))
        assert (expected in asked) == ("prompts" in inputs)


# GGUF


def test_a_gguf_file_plans_and_its_server_is_used_again(host: ComfyServer, model: Path) -> None:
    if not host.llama_server.exists():
        failure(host, planning(load(GGUF)), r"InterleaveLoadAgent: .*llama-server.*LLAMA_SERVER")
    host.llama_server.parent.mkdir(exist_ok=True)
    program = write_program(host.llama_server.parent, text=PLAN)
    for request in ("a boat", "another boat"):
        graph = changed(planning(load(GGUF)), "planner", request=request)
        assert "draw: a boat" in text_of(host.run(graph))
    ((_, arguments),) = starts_of(program)
    assert Path(arguments[arguments.index("-m") + 1]).name == model.name
    assert "draw: a boat" in text_of(host.run(planning(load(GGUF, gpu_layers=0, context=4096))))
    process, arguments = starts_of(program)[-1]
    assert arguments[arguments.index("-c") + 1] == "4096" and "--no-mmproj-offload" in arguments
    host.kill()
    try:
        wait_until(host, lambda: is_gone(process))
    finally:
        host.start()


def is_gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


# Remote Agent


def remote(server: ChatServer, **inputs: Any) -> dict[str, Any]:
    url = server.spec.partition("@")[2]
    return node("InterleaveRemoteAgent", **{"base_url": url, "model": "tiny", **inputs})


def test_a_server_plans(host: ComfyServer, server: ChatServer) -> None:
    assert "draw: a boat" in text_of(host.run(planning(remote(server))))
    assert "authorization" not in server.headers_seen[-1]


def test_cancel_works_while_the_server_is_silent(host: ComfyServer, server: ChatServer) -> None:
    server.silent_seconds = 60.0
    asked = len(server.requests)
    try:
        started = host.queue(planning(remote(server, timeout=100)))
        wait_until(host, lambda: len(server.requests) > asked)
        answers_at_once(host, started)
    finally:
        server.silent_seconds = 0.0


# Agent from CLIP


def writer(kind: str, written: str = PLAN) -> Graph:
    """A text encoder that writes this."""
    return loaders() | {"writer": node("InterleaveTestClip", reply=written, kind=kind, clip="@clip")}


FROM_CLIP = node("InterleaveHostAgent", clip="@writer")


def test_a_text_encoder_that_cannot_write_is_detected(host: ComfyServer) -> None:
    plain = writer("sees") | planning(node("InterleaveHostAgent", clip="@clip"))
    for graph in (plain, writer("cannot") | planning(FROM_CLIP)):
        failure(host, graph, "HostAgent: .*(ComfyUI cannot generate text|cannot be used as an agent)")
    assert "draw: a boat" in text_of(host.run(writer("sees") | planning(FROM_CLIP)))


VERDICT = '{"previous_step_success": true, "refine_prompt": ""}'
WHOLE = f"<think>looked</think><answer>{VERDICT}</answer>"
THOUGHT = f"The hat may be there.\n{VERDICT}"
"""The reply lacks the start of the thinking, so only its length in tokens shows that it was cut."""


@pytest.mark.parametrize(
    ("kind", "written", "error"),
    [
        ("sees", WHOLE, ""),
        ("blind", WHOLE, r"Two judgments in a row failed.*saw 0 of 2 images"),
        ("sees", THOUGHT, ""),
        ("cut", THOUGHT, "could not be parsed"),
    ],
)
def test_a_text_encoder_with_vision_judges(host: ComfyServer, kind: str, written: str, error: str) -> None:
    graph = judged(f"host critic {kind} {len(written)}", FROM_CLIP) | writer(kind, written)
    if error:
        failure(host, graph, error)
    else:
        assert "Accepted at attempt 1" in text_of(host.run(graph), "report")


def test_cancel_stops_a_text_encoder(host: ComfyServer) -> None:
    graph = writer("slow") | planning(FROM_CLIP)
    graph["planner"]["inputs"]["request"] = "a story without a stored plan"
    answers_at_once(host, started_running(host, graph, 1.5))


# Errors

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "hub": (load(AGENT, hub_id="Qwen/Qwen3-VL-8B"), "Qwen/Qwen3-VL-8B is not in .*Switch on 'download'"),
    "offline": (load(AGENT, hub_id="Qwen/Qwen3-VL-8B", download=True), "HF_HUB_OFFLINE"),
    "outside": (load("../../checkpoints"), r"The agent .* was not found"),
    "gguf precision": (load(GGUF, precision="bf16"), "own precision"),
    "gguf layers": (load(GGUF, gpu_layers="all"), "gpu_layers"),
}
WRONG_SERVERS: list[tuple[dict[str, Any], str]] = [
    ({"key_variable": "sk-proj-0123456789abcdef"}, "may be a key itself"),
    ({"model": " "}, "'model' is empty"),
    ({"base_url": "http://127.0.0.1:9/v1"}, "Cannot reach .*server is running"),
    ({"base_url": "file:///etc/passwd"}, "does not name a model and its server"),
    ({"base_url": "http://me:secret@127.0.0.1/v1"}, "only a host, a port and a path"),
]


@pytest.mark.parametrize("name", WRONG)
def test_impossible_settings_raise_one_line(host: ComfyServer, program: Path, name: str) -> None:
    failure(host, planning(WRONG[name][0]), WRONG[name][1])


@pytest.mark.parametrize(("inputs", "said"), WRONG_SERVERS)
def test_a_wrong_server(host: ComfyServer, server: ChatServer, inputs: dict[str, Any], said: str) -> None:
    error = failure(host, planning(remote(server, **inputs)), said)
    assert "0123456789abcdef" not in f"{error} {error.details}"
