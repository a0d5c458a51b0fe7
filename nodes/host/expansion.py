"""The running graph as the host holds it, for nodes that lay out more of it while it runs.

Decision: nothing of the host's is changed here, only read: which nodes there are, which of them show
something, and whether the host keeps results at all. What it takes for a change is in `internals`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import folder_paths
from comfy.cli_args import args
from comfy_execution.graph_utils import ExecutionBlocker

MAX_FILE_NAME = 260


def graph_of(dynprompt: Any) -> dict[str, dict[str, Any]]:
    """All nodes of the running prompt in API form, those that were laid out meanwhile too."""
    return {name: dynprompt.get_node(name) for name in dynprompt.all_node_ids()}


def is_output_class(class_type: str) -> bool:
    """Whether nodes of this class show or save something, so that the host runs them without being asked
    for."""
    from nodes import NODE_CLASS_MAPPINGS

    return bool(getattr(NODE_CLASS_MAPPINGS.get(class_type), "OUTPUT_NODE", False))


def file_stamp(text: str) -> str | None:
    """Size and time of the model or input file that a setting names; None if it names none."""
    if not Path(text).suffix or len(text) > MAX_FILE_NAME or "\n" in text:
        return None
    for folder in folder_paths.folder_names_and_paths:
        path = None if folder == "custom_nodes" else folder_paths.get_full_path(folder, text)
        if path is not None:
            found = Path(path).stat()
            return f"{folder} {found.st_size} {found.st_mtime_ns}"
    return None


def keeps_no_results() -> bool:
    """Whether the host was started with --cache-none."""
    return bool(args.cache_none)


def missing(reason: str) -> ExecutionBlocker:
    """Value of an output that has nothing, where using it is a mistake: what hangs on it fails with the
    reason."""
    return ExecutionBlocker(reason)


def nothing() -> ExecutionBlocker:
    """Value of an output that has nothing: what hangs on it is left out instead of failing."""
    return ExecutionBlocker(None)
