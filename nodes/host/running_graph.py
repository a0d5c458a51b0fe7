"""The running graph, and calls of the host's own nodes.

Nodes that expand the graph only read the host's data here; its change detection is in `internals`. A model's
encode node, schedule or guider is called, never reimplemented, since its prompt template and image sizes
belong to the model and change with it. It is looked up by id, not imported from its current file, and its
inputs are checked first.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import folder_paths
from comfy.cli_args import args
from comfy_execution.graph_utils import ExecutionBlocker

from ...backend.core.errors import SettingsError

MAX_FILE_NAME = 260


def graph_of(dynprompt: Any) -> dict[str, dict[str, Any]]:
    """Return all nodes of the running prompt in API form, including expanded ones."""
    return {name: dynprompt.get_node(name) for name in dynprompt.all_node_ids()}


def is_output_class(class_type: str) -> bool:
    """Return whether nodes of this class are output nodes, which the host always runs."""
    from nodes import NODE_CLASS_MAPPINGS

    return bool(getattr(NODE_CLASS_MAPPINGS.get(class_type), "OUTPUT_NODE", False))


def file_stamp(text: str) -> str | None:
    """Return size and time of the model or input file that a setting names, `None` if it names none."""
    if not Path(text).suffix or len(text) > MAX_FILE_NAME or "\n" in text:
        return None
    for folder in folder_paths.folder_names_and_paths:
        path = None if folder == "custom_nodes" else folder_paths.get_full_path(folder, text)
        if path is not None:
            found = Path(path).stat()
            return f"{folder} {found.st_size} {found.st_mtime_ns}"
    return None


def keeps_no_results() -> bool:
    """Return whether the host was started with --cache-none."""
    return bool(args.cache_none)


def missing(reason: str) -> ExecutionBlocker:
    """Return the value of an empty output whose use is an error: nodes behind it fail with the reason."""
    return ExecutionBlocker(reason)


def nothing() -> ExecutionBlocker:
    """Return the value of an empty output: nodes behind it are skipped."""
    return ExecutionBlocker(None)


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
