"""What Load Agent does with an agent's card and prompt set before it loads the weights.

The jobs of an agent are the sockets that its node is connected to. Links through other nodes (switches) are
not followed; the planner or critic then refuses the agent when it gets it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...backend.prompts.agent_card import Role
from ...backend.prompts.trained_with import TrainedWith, trained_with
from .folders import BUILT_IN, adapter_folder, agent_file

SOCKETS: dict[tuple[str, str], Role] = {
    ("InterleavePlanner", "agent"): "planner",
    ("InterleaveJudge", "agent"): "critic",
}
"""Inputs for agents by node and name. An input with the name of a role is for that role in every node."""
ROLES: dict[str, Role] = {"planner": "planner", "critic": "critic"}


def wired_roles(graph: Mapping[str, Mapping[str, Any]], node: str) -> list[Role]:
    """Return the jobs of an agent node: those of the sockets that it is connected to.

    Args:
        graph: All nodes in API form.
        node: Id of the agent node.
    """
    found: set[Role] = set()
    for other in graph.values():
        for name, value in other.get("inputs", {}).items():
            # A link is [node, output]; a loader has one output.
            if isinstance(value, (list, tuple)) and len(value) == 2 and str(value[0]) == node:
                role = SOCKETS.get((str(other.get("class_type")), name)) or ROLES.get(name)
                if role is not None:
                    found.add(role)
    return sorted(found)


def record_of(name: str, adapter: str, roots: Sequence[Path]) -> TrainedWith | None:
    """Return the record of an agent with its adapter, `None` for the built-in agents.

    Raises:
        SettingsError: The agent or adapter was not found, or its card is damaged.
    """
    if name in BUILT_IN:
        return None
    path = agent_file(name, roots)
    base = trained_with(path) if path.is_dir() else trained_with(path.parent, file=path.name)
    lora = adapter_folder(adapter, roots)
    return base if lora is None else trained_with(lora, adapter=True).over(base)
