"""Calls of the host's own nodes, found by id in its registry.

A model's encode node, schedule or guider is called, never reimplemented, since its prompt template and image
sizes belong to the model and change with it. It is looked up by id, not imported from its current file, and
its inputs are checked before the call: a host that lacks or has changed the node is reported.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from ...backend.errors import SettingsError

ANOTHER_WAY = "Update ComfyUI, or put the model's own workflow between Attempt Start and Attempt End."


def has_node(node_id: str) -> bool:
    """Return whether this host has a node with this id."""
    return node_id in _registry()


def check_node(node_id: str, inputs: Iterable[str] = ()) -> None:
    """Check that the host has this node with these inputs.

    Raises:
        SettingsError: It does not.
    """
    if not has_node(node_id):
        raise SettingsError(
            f"This ComfyUI does not have the node {node_id}, which the model needs.", ANOTHER_WAY
        )
    parameters = inspect.signature(_function(node_id)).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    unknown = sorted(set(inputs) - set(parameters))
    if unknown:
        raise SettingsError(
            f"The node {node_id} of this ComfyUI does not have the input {', '.join(map(repr, unknown))}.",
            ANOTHER_WAY,
        )


def call_node(node_id: str, **inputs: Any) -> tuple[Any, ...]:
    """Call a node of the host and return its outputs.

    Raises:
        SettingsError: As `check_node`.
        Exception: Any error of the node.
    """
    check_node(node_id, inputs)
    answer = _function(node_id)(**inputs)
    outputs = answer.args if hasattr(answer, "args") else answer
    # Nodes with the older API may wrap their outputs in a dictionary.
    return tuple(outputs["result"] if isinstance(outputs, dict) else outputs)


def _registry() -> dict[str, Any]:
    import nodes

    return nodes.NODE_CLASS_MAPPINGS


def _function(node_id: str) -> Callable[..., Any]:
    """Return the function of a node: `execute` with the newer API, the named method with the older one."""
    kind = _registry()[node_id]
    return kind.execute if hasattr(kind, "define_schema") else getattr(kind(), kind.FUNCTION)
