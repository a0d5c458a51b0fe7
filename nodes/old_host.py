"""Stand-ins for the nodes in a ComfyUI that is too old for the pack; each one says to update.

A pack that fails to load leaves red boxes and a traceback in the console. So if the host lacks the API that
the nodes need, stand-ins in the host's oldest node format have their names and raise one error when run.
"""

from __future__ import annotations

import inspect
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

OLDEST = "0.14.0"
OUTPUTS = 7
"""Number of outputs of a stand-in: at least that of any node, so that the links of a graph stay."""


class AnyKind(str):
    """A socket type that equals every other."""

    __slots__ = ()

    def __ne__(self, other: object) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


@cache
def node_texts() -> dict[str, Any]:
    """Return the English texts of all nodes by id: name, description, and those of inputs and outputs."""
    file = Path(__file__).resolve().parents[1] / "locales" / "en" / "nodeDefs.json"
    return json.loads(file.read_text(encoding="utf-8"))


def node_names() -> dict[str, str]:
    """Return the display names of all nodes by id."""
    return {node: texts["display_name"] for node, texts in node_texts().items()}


def stand_ins() -> dict[str, type] | None:
    """Return stand-ins for the nodes by id, `None` outside ComfyUI and if ComfyUI is new enough."""
    if "folder_paths" not in sys.modules or is_new_enough():
        return None
    line = (
        f"InterleaveThinker needs ComfyUI {OLDEST} or newer; this is {host_version()}. "
        "Update ComfyUI (Manager: Update ComfyUI), then restart it."
    )
    print(line, file=sys.stderr)
    return {node_id: stand_in(node_id, line) for node_id in node_names()}


def is_new_enough() -> bool:
    """Return whether the host has the node API that the pack needs."""
    try:
        from comfy_api.latest import ComfyExtension, io
    except ImportError:
        return False
    needed = {"search_aliases", "enable_expand", "not_idempotent"}
    has_all = needed <= set(inspect.signature(io.Schema).parameters)
    return (
        has_all and all(hasattr(io, name) for name in ("Autogrow", "DynamicCombo")) and bool(ComfyExtension)
    )


def host_version() -> str:
    """Return the host's version, "an older one" if unknown."""
    version = getattr(sys.modules.get("comfyui_version"), "__version__", None)
    if version is None:
        try:
            from comfyui_version import __version__ as version
        except ImportError:
            return "an older one"
    return str(version)


def stand_in(node_id: str, line: str) -> type:
    """Return a node class of the host's first node format that raises RuntimeError with this line."""

    def run(self: Any, **inputs: Any) -> Any:
        raise RuntimeError(line)

    def inputs(cls: type) -> dict[str, Any]:
        return {"required": {}}

    body = {
        "__doc__": line,
        "CATEGORY": "InterleaveThinker",
        "DESCRIPTION": line,
        "FUNCTION": "run",
        "OUTPUT_NODE": True,
        "RETURN_TYPES": (AnyKind("*"),) * OUTPUTS,
        "INPUT_TYPES": classmethod(inputs),
        "run": run,
    }
    return type(node_id, (), body)
