"""The running graph, for nodes that expand it while it runs.

The host's data is only read here: the nodes, which of them are output nodes, and whether the host caches
results. Its change detection is in `internals`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import folder_paths
from comfy.cli_args import args
from comfy_execution.graph_utils import ExecutionBlocker

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
