"""Agents in the host's memory: whole or not at all, loaded once, unloaded on demand, and clear errors."""

from __future__ import annotations

import time
from typing import Any

import pytest
from support.host_home import HostHome

from ..graphs.examples import CHECKPOINTS, need_checkpoints
from ..graphs.klein import Graph, node, story
from ..server.comfy_server import ComfyServer
from ..server.rigs import results_of

LOADED = "Requested to load AgentModel"
AGENT = "memory/critic"


@pytest.fixture(scope="module")
def rig(host_home: HostHome) -> dict[str, Any]:
    """What the host's memory manager did in every scenario of `memory_rig.py`."""
    need_checkpoints()
    return results_of(host_home, "memory_rig")


@pytest.mark.parametrize("state", ["normal", "lowvram", "novram", "highvram"])
def test_agents_and_image_model_take_turns_and_none_is_ever_half_there(
    rig: dict[str, Any], state: str
) -> None:
    # Two agents speak three times each on a card that holds one of them.
    assert rig[state] == {"half": [], "arrivals": 6, "within": True}


def test_the_planner_leaves_for_good_and_the_others_stay(rig: dict[str, Any]) -> None:
    assert rig["planner_first"] == {"planner": [1.0, 0.0], "critic": 1.0, "image_model": 1.0, "arrivals": 2}


def test_a_host_that_does_not_show_what_is_loaded_makes_room_itself(rig: dict[str, Any]) -> None:
    seen = rig["without_a_list"]
    assert seen["critic"] == 1.0 and seen["planner"][0] == 1.0
    assert seen != rig["planner_first"], "nothing was taken away"


def test_an_agent_stays_between_calls_where_there_is_room(rig: dict[str, Any]) -> None:
    assert rig["stays"] == {"arrivals": 1, "on_card": 1.0}


def test_planner_and_critic_on_one_base_are_one_model_to_the_manager(rig: dict[str, Any]) -> None:
    assert rig["shared"] == {"same": True, "managed": 1, "arrivals": 1}


def test_unloading_gives_everything_back(rig: dict[str, Any]) -> None:
    seen = rig["unloaded"]
    assert seen["before"] > 1_000_000 and seen["after"] == 0
    assert seen["arrivals"] == 2, "the next call brings it again"
    assert seen["freed"] and seen["left"] == 0, "what nobody holds is gone"


def test_an_agent_larger_than_the_card_is_refused_before_anything_is_evicted(rig: dict[str, Any]) -> None:
    seen = rig["too_big"]
    assert "The agent needs" in seen["said"] and "8-bit or 4-bit" in seen["said"]
    assert seen["image_model"] == 1.0 and seen["agent"] == 0.0


def test_running_out_of_memory_leaves_nothing_half_and_says_what_to_lower(rig: dict[str, Any]) -> None:
    for scenario, share in (("runs_out_while_loading", 0.0), ("runs_out_while_writing", 1.0)):
        seen = rig[scenario]
        assert "ran out of memory" in seen["said"] and "8-bit or 4-bit" in seen["said"]
        assert "\n" not in seen["said"]
        assert seen["agent"] == share and seen["then"], "the next call works"


def test_the_host_is_asked_for_what_the_reply_is_reckoned_to_take(rig: dict[str, Any]) -> None:
    seen = rig["asked"]
    assert seen["words"] == seen["reckoned"]
    assert seen["images"] > seen["words"] and seen["longer"] > seen["words"]


def test_weights_that_cannot_be_moved_are_read_again(rig: dict[str, Any]) -> None:
    expected = {"registered": 1, "kept": True, "forgotten": True, "again": True, "same": True}
    assert rig["reread"] == expected


def test_a_server_on_the_card_ends_when_its_room_is_wanted(rig: dict[str, Any]) -> None:
    seen = rig["server"]
    assert seen["alone"] == 1.0 and seen["beside"] < 1.0, "room is made before the server starts"
    assert seen["ended"] == [0, 0, 1, 2], "it stays between replies, and ends when asked for its room"


def agent_graph(request: str) -> Graph:
    """Planner and critic from one checkpoint, loaded by a node each; two loops have a step judged."""
    graph = story(request, ["a house"], (64, 64), max_attempts=2)
    graph["critic"] = node("InterleaveLoadAgent", agent=AGENT)
    graph["other"] = node("InterleaveLoadAgent", agent=AGENT, strictness="strict")
    graph["second"] = node(
        "InterleaveCriticLoop", **{**graph["loop"]["inputs"], "seed": 5, "critic": ["other", 0]}
    )
    graph["loop"]["inputs"]["critic"] = ["critic", 0]
    graph["again"] = node("PreviewAny", source=["second", 3])
    return graph


def test_a_run_loads_its_agent_once_and_the_hosts_button_frees_it(host: ComfyServer) -> None:
    need_checkpoints()
    folder = host.base / "models" / "interleave_agents" / AGENT
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.symlink_to(CHECKPOINTS / "critic", target_is_directory=True)
    before = host.log_path.read_text(errors="replace").count(LOADED)
    host.run(agent_graph("loaded once"))
    host.run(agent_graph("and again"))
    assert host.log_path.read_text(errors="replace").count(LOADED) == before + 1
    assert host.post("/free", {"unload_models": True, "free_memory": True}).status_code == 200
    time.sleep(5)  # the host looks at the button between prompts
    host.run(agent_graph("once more"))
    assert host.log_path.read_text(errors="replace").count(LOADED) == before + 2
