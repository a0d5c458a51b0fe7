"""Agents in the host's memory: whole or not at all, loaded once, unloaded on demand, and clear errors."""

from __future__ import annotations

import time
from typing import Any

import pytest
from support.host_home import HostHome

from ..graphs.examples import CHECKPOINTS, need_checkpoints
from ..graphs.stories import Graph, changed, node, shown, story
from ..server.comfy_server import ComfyServer
from ..server.rigs import results_of

LOADED = "Requested to load AgentModel"
AGENT = "memory/critic"


@pytest.fixture(scope="module")
def rig(host_home: HostHome) -> dict[str, Any]:
    """Results of the host's memory manager in every scenario of `memory_rig.py`."""
    need_checkpoints()
    return results_of(host_home, "memory_rig")


@pytest.mark.parametrize("state", ["normal", "lowvram", "novram", "highvram"])
def test_agents_and_image_model_take_turns(rig: dict[str, Any], state: str) -> None:
    # Two agents reply three times each on a GPU with room for one of them.
    assert rig[state] == {"half": [], "arrivals": 6, "within": True}


def test_the_planner_is_offloaded_and_the_others_stay(rig: dict[str, Any]) -> None:
    assert rig["planner_first"] == {"planner": [1.0, 0.0], "critic": 1.0, "image_model": 1.0, "arrivals": 2}


def test_an_agent_stays_loaded_between_calls_if_memory_allows(rig: dict[str, Any]) -> None:
    assert rig["stays"] == {"arrivals": 1, "on_gpu": 1.0}


def test_planner_and_critic_on_one_base_are_one_model_to_the_manager(rig: dict[str, Any]) -> None:
    assert rig["shared"] == {"same": True, "managed": 1, "arrivals": 1}


def test_unloading_frees_everything(rig: dict[str, Any]) -> None:
    seen = rig["unloaded"]
    assert seen["before"] > 1_000_000 and seen["after"] == 0
    assert seen["arrivals"] == 2, "the next call brings it again"
    assert seen["freed"] and seen["left"] == 0, "weights without references are freed"


def test_an_agent_larger_than_the_gpu_is_rejected_before_anything_is_evicted(rig: dict[str, Any]) -> None:
    seen = rig["too_big"]
    assert "The agent needs" in seen["said"] and "8-bit or 4-bit" in seen["said"]
    assert seen["image_model"] == 1.0 and seen["agent"] == 0.0


def test_running_out_of_memory_loads_nothing_partially_and_gives_advice(rig: dict[str, Any]) -> None:
    for scenario, share in (("runs_out_while_loading", 0.0), ("runs_out_while_writing", 1.0)):
        seen = rig[scenario]
        assert "ran out of memory" in seen["said"] and "8-bit or 4-bit" in seen["said"]
        assert "\n" not in seen["said"]
        assert seen["agent"] == share and seen["then"], "the next call works"


def test_the_host_reserves_the_estimated_memory_of_the_reply(rig: dict[str, Any]) -> None:
    seen = rig["asked"]
    assert seen["words"] == seen["estimate"]
    assert seen["images"] > seen["words"] and seen["longer"] > seen["words"]


def test_weights_that_cannot_be_moved_are_read_again(rig: dict[str, Any]) -> None:
    expected = {"registered": 1, "kept": True, "forgotten": True, "again": True, "same": True}
    assert rig["reread"] == expected


def test_the_cached_question_leaves_the_gpu_with_the_weights(rig: dict[str, Any]) -> None:
    """For an image model, by the unload button, for another agent, and with weights that are read again."""
    assert rig["question_cache"] == {"cached": [[True, False]] * 4}


def test_a_server_on_the_gpu_ends_when_its_memory_is_needed(rig: dict[str, Any]) -> None:
    seen = rig["server"]
    assert seen["alone"] == 1.0 and seen["with_server"] < 1.0, "room is made before the server starts"
    assert seen["ended"] == [0, 0, 1, 2], "it stays between replies, and ends when its memory is needed"


def agent_graph(request: str) -> Graph:
    """Planner and critic from one checkpoint, loaded by a node each; two loops have a step judged."""
    graph = story(request, ["a house"], critic=node("InterleaveLoadAgent", agent=AGENT), max_attempts=2)
    graph["other"] = node("InterleaveLoadAgent", agent=AGENT, strictness="strict")
    graph["second"] = graph["loop"]
    return changed(graph, "second", seed=5, critic="@other") | {"again": shown("second", 3)}


def test_a_run_loads_its_agent_once_and_the_hosts_button_frees_it(host: ComfyServer) -> None:
    need_checkpoints()
    folder = host.base / "models" / "interleave_agents" / AGENT
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.symlink_to(CHECKPOINTS / "critic", target_is_directory=True)
    before = host.log().count(LOADED)
    host.run(agent_graph("loaded once"))
    host.run(agent_graph("and again"))
    assert host.log().count(LOADED) == before + 1
    host.free()
    time.sleep(5)  # the host looks at the button between prompts
    host.run(agent_graph("once more"))
    assert host.log().count(LOADED) == before + 2
