"""Agents in the real host: found, loaded, downloaded on request, used as critics, cancelled, and errors."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.chat_server import ChatServer, chat_server
from support.small_families import save_family

from interleave_thinker.backend.core.prompts.prompt_set import PromptSet

from ..graphs.examples import CHECKPOINTS, REQUEST, need_checkpoints
from ..graphs.klein import Graph, node, story
from ..server.comfy_server import ComfyServer, HostError

AGENT = "someone/tiny-agent"
STEP = {
    "step_number": 1,
    "step_name": "Boat",
    "instruction": None,
    "prompt": "a boat",
    "auxiliary_text": "Ahoy.",
}
PLAN = f"<think>easy</think><answer>{json.dumps({'execution_plan': [STEP]})}</answer>"


@pytest.fixture(scope="module")
def agent(host: ComfyServer) -> Path:
    """An untrained checkpoint of the real architecture in the host's agent folder."""
    from support.tiny_checkpoint import build_checkpoint

    folder = host.base / "models" / "interleave_agents" / AGENT
    folder.mkdir(parents=True)
    return build_checkpoint(folder)


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    with chat_server(PLAN) as running:
        yield running


def options(host: ComfyServer, name: str) -> list[str]:
    inputs = host.get("/object_info/InterleaveLoadAgent")["InterleaveLoadAgent"]["input"]
    return {**inputs["required"], **inputs["optional"]}[name][1]["options"]


def planning(**agent_inputs: Any) -> Graph:
    """Return a graph that plans with Load Agent and these inputs."""
    given = {"class_type": "InterleaveLoadAgent", **agent_inputs}
    kind = given.pop("class_type")
    return {
        "agent": node(kind, **given),
        "planner": node("InterleavePlanner", agent="@agent", request=f"a boat {agent_inputs}"),
        "text": node("PreviewAny", source=["planner", 1]),
    }


def log_of(host: ComfyServer) -> str:
    return host.log_path.read_text(errors="replace")


def wait_until(host: ComfyServer, true: Any) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, host.log_tail()
        time.sleep(0.05)


def cancelled_within(host: ComfyServer, prompt: str) -> float:
    """Seconds from pressing cancel to the end of the prompt, which must have ended as interrupted."""
    pressed = time.monotonic()
    host.post("/interrupt")
    entry = host.wait(prompt)
    assert [kind for kind, _ in entry["status"]["messages"]][-1] == "execution_interrupted"
    return time.monotonic() - pressed


# Load Agent


def test_checkpoints_are_offered_and_other_folders_are_not(host: ComfyServer, agent: Path) -> None:
    need_checkpoints()
    other = agent.parent / "not-an-agent"
    other.mkdir()
    (other / "config.json").write_text('{"model_type": "llama"}')
    (agent.parent / "a-text-file").write_text("not a folder")
    elsewhere = host.base / "elsewhere" / "agents" / "in-extra-paths"
    elsewhere.parent.mkdir(parents=True)
    shutil.copytree(CHECKPOINTS / "planner", elsewhere)
    names = options(host, "agent")
    assert AGENT in names and "in-extra-paths" in names
    assert not any("not-an-agent" in name or "text-file" in name for name in names)
    folder = str(host.base / "models" / "interleave_agents")
    about = host.get("/object_info/InterleaveLoadAgent")["InterleaveLoadAgent"]
    assert folder in about["description"] and str(elsewhere.parent) in about["description"]


def test_an_agent_from_the_extra_paths_plans(host: ComfyServer, agent: Path) -> None:
    graph = planning(agent="in-extra-paths")
    graph["planner"]["inputs"]["request"] = REQUEST
    assert "red house" in host.run(graph)["text"]["text"][0]


def test_cancel_stops_an_agent_in_the_middle_of_a_reply(host: ComfyServer, agent: Path) -> None:
    graph = story("interrupted judge", ["a house"], (64, 64), max_attempts=5)
    graph["critic"] = node("InterleaveLoadAgent", agent=AGENT)
    graph["loop"]["inputs"]["critic"] = ["critic", 0]
    before = log_of(host).count("Requested to load AgentModel")
    started = host.queue(graph)
    wait_until(host, lambda: log_of(host).count("Requested to load AgentModel") > before)
    time.sleep(0.3)
    assert cancelled_within(host, started) < 30


def test_a_planner_as_critic_stops_the_run_and_a_critic_resumes_it(host: ComfyServer) -> None:
    need_checkpoints()
    graph = story("planner as critic", ["a red house in the middle"], (64, 64), max_attempts=9)
    graph["critic"] = node("InterleaveLoadAgent", agent="tiny world planner")
    graph["loop"]["inputs"]["critic"] = ["critic", 0]
    with pytest.raises(HostError, match=r"Two verdicts in a row .* Critic: .*planner.*images are saved"):
        host.run(graph)
    graph["critic"]["inputs"]["agent"] = "tiny world critic"
    graph["loop"]["inputs"]["max_attempts"] = 2
    assert "attempt 2: " in host.run(graph)["report"]["text"][0]


def test_candidates_are_judged_together(host: ComfyServer) -> None:
    """Judged together, each image has the same share of the total time."""
    need_checkpoints()
    graph = story("together", ["a house"], (64, 64), max_attempts=4)
    graph["critic"] = node("InterleaveLoadAgent", agent="tiny world critic")
    graph["loop"]["inputs"]["critic"] = ["critic", 0]
    graph["loop"]["inputs"]["candidates"] = 4
    host.run(graph)
    (folder,) = (host.base / "output" / "interleave-thinker").glob("together-*")
    verdicts = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("verdicts/*.json")]
    assert len(verdicts) == 4 and len({one["seconds"] for one in verdicts}) == 1


def test_strictness_of_the_agent_applies_if_the_loop_has_none(host: ComfyServer) -> None:
    """The agent's strictness counts if the loop has none; the loop's own wins."""
    need_checkpoints()

    def report(loop: dict[str, Any] | None = None, **inputs: Any) -> str:
        graph = story("strict", ["a house"], (64, 64), max_attempts=2)
        graph["critic"] = node("InterleaveLoadAgent", agent="tiny world critic", **inputs)
        graph["loop"]["inputs"] |= {"critic": ["critic", 0], **(loop or {})}
        host.run(graph)
        (folder,) = (host.base / "output" / "interleave-thinker").glob("strict-*")
        return json.loads((folder / "trajectory.json").read_text(encoding="utf-8"))["settings"]["accept_at"]

    assert report(strictness="lenient") == 0.3
    assert report(strictness="strict", precision="bf16") == 0.8
    assert report() is None
    assert report({"strictness": "normal", "accept_at": 0.9}, strictness="strict") == 0.5
    assert report({"strictness": "critic's own verdict"}, strictness="strict") is None


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        (
            {"agent": AGENT, "hub_id": "Qwen/Qwen3-VL-8B"},
            "Qwen/Qwen3-VL-8B is not in .*Switch on 'download'",
        ),
        ({"agent": AGENT, "hub_id": "../../etc"}, "not a valid Hugging Face model name"),
        ({"agent": AGENT, "hub_id": "Qwen/Qwen3-VL-8B", "download": True}, "HF_HUB_OFFLINE"),
    ],
)
def test_impossible_settings_raise_one_line(
    host: ComfyServer, agent: Path, inputs: dict[str, Any], said: str
) -> None:
    with pytest.raises(HostError, match=said):
        host.run(planning(**inputs))


def test_precisions_that_need_a_missing_library_are_not_offered(host: ComfyServer, agent: Path) -> None:
    offered = options(host, "precision")
    assert offered[:4] == ["auto", "bf16", "fp16", "fp32"]
    if "4-bit" not in offered:
        with pytest.raises(HostError, match=r"precision: '4-bit' not in"):
            host.run(planning(agent=AGENT, precision="4-bit"))
    else:
        with pytest.raises(HostError, match="built-in agents do not support 4-bit"):
            host.run(planning(agent="tiny world planner", precision="4-bit"))


def need_free_replies(host: ComfyServer) -> None:
    """Skip where the host's llguidance makes even random weights write a verdict."""
    look = "import importlib.util, sys; sys.exit(importlib.util.find_spec('llguidance') is not None)"
    if subprocess.run([str(host.home.python), "-c", look], check=False).returncode:
        pytest.skip("The host has llguidance, so random weights write verdicts.")


def test_an_untested_family_is_brought_onto_the_device_and_named(host: ComfyServer, agent: Path) -> None:
    """Random weights write no verdict, which the loop reports; all else works as with any agent."""
    need_free_replies(host)
    save_family("glm4v", agent.parent / "tiny-glm")
    assert "someone/tiny-glm" in options(host, "agent")
    graph = story("untested family", ["a house"], (64, 64), max_attempts=2)
    graph["critic"] = node("InterleaveLoadAgent", agent="someone/tiny-glm", max_tokens=64)
    graph["loop"]["inputs"]["critic"] = ["critic", 0]
    before = log_of(host).count("Requested to load AgentModel")
    with pytest.raises(HostError, match=r"Two verdicts in a row could not be parsed.*tiny-glm"):
        host.run(graph)
    assert log_of(host).count("Requested to load AgentModel") == before + 1
    assert "tiny-glm: the family glm4v is untested." in log_of(host)


PUBLISHED = "InterleaveThinker-Critic-8B"
"""Folder name of a published critic; here with random weights."""


def judged_by(name: str, **inputs: Any) -> Graph:
    """Return a graph of one step whose critic is Load Agent with these inputs."""
    graph = story(f"judged by {name} {inputs}", ["a house"], (64, 64), max_attempts=2)
    graph["critic"] = node("InterleaveLoadAgent", agent=name, **{"max_tokens": 32, **inputs})
    graph["loop"]["inputs"]["critic"] = ["critic", 0]
    return graph


def test_a_planner_in_a_critics_socket_is_refused_before_it_is_loaded(host: ComfyServer, agent: Path) -> None:
    folder = shutil.copytree(agent, agent.parent / "tiny-planner")
    card = {"format": "interleave-agent-card", "version": 1, "role": "planner"}
    (folder / "agent.json").write_text(json.dumps(card))
    (folder / "model.safetensors").write_bytes(b"not weights: an error that names them would come too late")
    said = r"InterleaveLoadAgent: tiny-planner was trained as a planner .* cannot be used as a critic"
    with pytest.raises(HostError, match=said):
        host.run(judged_by("someone/tiny-planner"))
    card["role"] = "critic"
    (folder / "agent.json").write_text(json.dumps(card))
    with pytest.raises(HostError, match=r"trained as a critic .* cannot be used as a planner"):
        host.run(planning(agent="someone/tiny-planner"))
    with pytest.raises(HostError, match=r"model\.safetensors"):
        host.run(judged_by("someone/tiny-planner"))


def test_a_published_critic_without_its_prompts_is_named_with_the_remedy(
    host: ComfyServer, agent: Path
) -> None:
    need_free_replies(host)
    folder = shutil.copytree(agent, agent.parent / PUBLISHED)
    line = f"{PUBLISHED} is a published reinforced critic (strict). Its folder does not contain"
    name = f"someone/{PUBLISHED}"
    with pytest.raises(HostError, match="Two verdicts in a row could not be parsed"):
        host.run(judged_by(name))
    assert log_of(host).count(line) == 1, "said once, by Load Agent, and not again by the critic"
    assert f"prompts import InterleaveThinker --to {folder}" in log_of(host)

    prompts = agent.parent / "their-prompts"
    prompts.mkdir()
    for file in ("planner_text", "planner_images"):
        (prompts / f"{file}.txt").write_text("Plan {text_input}.")
    (prompts / "critic.txt").write_text("Judge {original_instruction} and {rewritten_prompt}.")
    assert "someone/their-prompts" in options(host, "prompts")
    with pytest.raises(HostError, match="Two verdicts in a row could not be parsed"):
        host.run(judged_by(name, prompts="someone/their-prompts"))
    assert log_of(host).count(line) == 1, "the prompt set was chosen"

    shutil.copytree(prompts, folder / "prompt_set")
    with pytest.raises(HostError, match="Two verdicts in a row could not be parsed"):
        host.run(judged_by(name))
    assert log_of(host).count(line) == 1, "the node runs again after an import"


def test_a_chosen_prompt_set_is_what_the_agent_is_asked_with(host: ComfyServer, agent: Path) -> None:
    need_checkpoints()

    def digest(**inputs: Any) -> str:
        graph = judged_by("tiny world critic", max_tokens=0, **inputs)
        graph["plan"]["inputs"]["request"] = "asked with"
        host.run(graph)
        (folder,) = (host.base / "output" / "interleave-thinker").glob("asked-with-*")
        return (folder / "trajectory.json").read_text(encoding="utf-8")

    given = agent.parent / "short-prompts"
    shutil.copytree(CHECKPOINTS / "critic" / "prompt_set", given)
    template = (given / "critic.txt").read_text(encoding="utf-8")
    (given / "critic.txt").write_text(f"{template} ", encoding="utf-8")
    expected = PromptSet.load(given).digest
    assert expected not in digest()
    assert expected in digest(prompts="someone/short-prompts")


def test_an_input_of_an_earlier_release_is_skipped(host: ComfyServer) -> None:
    need_checkpoints()
    graph = judged_by("tiny world critic", notes="none", max_tokens=0)
    graph["plan"]["inputs"]["request"] = "saved with notes"
    assert "report" in host.run(graph)


# Remote Agent


def remote(server: ChatServer, **inputs: Any) -> Graph:
    url = server.spec.partition("@")[2]
    return planning(class_type="InterleaveRemoteAgent", **{"base_url": url, "model": "tiny", **inputs})


def test_a_server_plans(host: ComfyServer, server: ChatServer) -> None:
    outputs = host.run(remote(server))
    assert "1. Boat" in outputs["text"]["text"][0]
    assert "authorization" not in server.headers_seen[-1]


def test_cancel_works_while_the_server_is_silent(host: ComfyServer, server: ChatServer) -> None:
    server.silent_seconds = 20.0
    asked = len(server.requests)
    try:
        started = host.queue(remote(server, timeout=100))
        wait_until(host, lambda: len(server.requests) > asked)
        time.sleep(0.3)
        assert cancelled_within(host, started) < 12, "the server is silent for 20 s"
    finally:
        server.silent_seconds = 0.0


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"key_variable": "sk-proj-0123456789abcdef"}, "may be a key itself"),
        ({"key_variable": "PATH"}, "not the name of an environment variable for a key"),
        ({"model": " "}, "'model' is empty"),
        ({"base_url": "http://127.0.0.1:9/v1"}, "Cannot reach .*server is running"),
        ({"base_url": "file:///etc/passwd"}, "does not name a model and its server"),
        ({"base_url": "http://me:secret@127.0.0.1/v1"}, "only a host, a port and a path"),
    ],
)
def test_a_wrong_server_or_key_is_reported(
    host: ComfyServer, server: ChatServer, inputs: dict[str, Any], said: str
) -> None:
    with pytest.raises(HostError, match=said) as error:
        host.run(remote(server, **inputs))
    assert "0123456789abcdef" not in f"{error.value} {error.value.details}"


# Agent from CLIP


def host_agent(kind: str, reply: str = PLAN) -> Graph:
    return planning(class_type="InterleaveHostAgent", clip="@writer") | {
        "clip": node("CLIPLoader", clip_name="qwen_3_4b.safetensors", type="flux2", device="default"),
        "writer": node("InterleaveTestClip", reply=reply, kind=kind, clip="@clip"),
    }


def test_a_text_encoder_that_cannot_write_is_detected(host: ComfyServer) -> None:
    plain = host_agent("sees") | {"agent": node("InterleaveHostAgent", clip="@clip")}
    for graph in (plain, host_agent("cannot")):
        with pytest.raises(
            HostError,
            match=r"InterleaveHostAgent: .*(ComfyUI cannot generate text|cannot be used as an agent)",
        ):
            host.run(graph)
    assert "1. Boat" in host.run(host_agent("sees"))["text"]["text"][0]


def test_a_text_encoder_with_vision_judges_by_its_own_verdict(host: ComfyServer) -> None:
    answer = json.dumps({"previous_step_success": True, "refine_prompt": ""})
    for kind in ("sees", "blind"):
        graph = story(f"host critic {kind}", ["a house"], (64, 64), max_attempts=2)
        writer = host_agent(kind, f"<think>looked</think><answer>{answer}</answer>")
        graph |= {"writer": writer["writer"], "critic": node("InterleaveHostAgent", clip="@writer")}
        graph["loop"]["inputs"]["critic"] = ["critic", 0]
        if kind == "sees":
            assert "Accepted at attempt 1" in host.run(graph)["report"]["text"][0]
        else:
            with pytest.raises(HostError, match=r"Two judgements in a row failed.*saw 0 of 2 images"):
                host.run(graph)


def test_a_text_encoder_truncated_while_thinking_returns_nothing(host: ComfyServer) -> None:
    """The reply does not contain the start of the thinking, so only its length in tokens shows the cut."""
    thought = 'The hat may be there.\n{"previous_step_success": true, "refine_prompt": ""}'
    for kind in ("sees", "cut"):
        graph = story(f"cut host critic {kind}", ["a house"], (64, 64), max_attempts=2)
        writer = host_agent(kind, thought)["writer"]
        graph |= {"writer": writer, "critic": node("InterleaveHostAgent", clip="@writer")}
        graph["loop"]["inputs"]["critic"] = ["critic", 0]
        if kind == "sees":
            assert "Accepted at attempt 1" in host.run(graph)["report"]["text"][0]
        else:
            with pytest.raises(HostError, match="could not be parsed"):
                host.run(graph)


def test_cancel_stops_a_text_encoder(host: ComfyServer) -> None:
    started = host.queue(host_agent("slow"))
    wait_until(host, lambda: host.get("/queue")["queue_running"])
    time.sleep(1.5)
    assert cancelled_within(host, started) < 12, "the encoder would write for 20 s"
