"""The host's own nodes, found in its registry by id and called as the host calls them.

Decision: a model's encode node, schedule or guider is called, never written anew: its prompt template and
image sizes belong to the model and change with it. It is found by id in the registry, not imported from the
file where it happens to lie, and its inputs are compared with those that it has before it is called: a host
that lacks it or has changed it is named in one line.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from ...backend.errors import SettingsError

ANOTHER_WAY = "Update ComfyUI, or wire the model's own workflow between Try Open and Try Close."


def has_node(node_id: str) -> bool:
    """Whether this host has a node of this id."""
    return node_id in _registry()


def check_node(node_id: str, inputs: Iterable[str] = ()) -> None:
    """Raise SettingsError unless the host has this node and it takes these inputs."""
    if not has_node(node_id):
        raise SettingsError(
            f"This ComfyUI has no node {node_id}, with which the model is drawn.", ANOTHER_WAY
        )
    parameters = inspect.signature(_function(node_id)).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    unknown = sorted(set(inputs) - set(parameters))
    if unknown:
        raise SettingsError(
            f"This ComfyUI's node {node_id} has no input {', '.join(repr(name) for name in unknown)}.",
            ANOTHER_WAY,
        )


def call_node(node_id: str, **inputs: Any) -> tuple[Any, ...]:
    """The outputs of a node of the host for these inputs; raises SettingsError as `check_node`, and whatever
    the node itself raises."""
    check_node(node_id, inputs)
    answer = _function(node_id)(**inputs)
    outputs = answer.args if hasattr(answer, "args") else answer
    # A node of the older kind may wrap its outputs in a dictionary.
    return tuple(outputs["result"] if isinstance(outputs, dict) else outputs)


def _registry() -> dict[str, Any]:
    import nodes

    return nodes.NODE_CLASS_MAPPINGS


def _function(node_id: str) -> Callable[..., Any]:
    """What carries the node out: a class method `execute` of newer ones, the named method of older ones."""
    kind = _registry()[node_id]
    return kind.execute if hasattr(kind, "define_schema") else getattr(kind(), kind.FUNCTION)
