"""What an artist sees whose ComfyUI is too old for the pack: the nodes by name, each of which says to update.

Decision: a pack that fails to load leaves red boxes and a trace in the console. So where the host lacks what
the nodes are built with, stand-ins in the host's oldest form take their names, take no part in anything, and
say one line when run.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

OLDEST = "0.14.0"
NODE_IDS = {
    "InterleaveLoadAgent": "Load Agent",
    "InterleaveRemoteAgent": "Remote Agent",
    "InterleaveHostAgent": "Host Agent",
    "InterleavePlanner": "Planner",
    "InterleaveEditPlan": "Edit Plan",
    "InterleaveStepGenerator": "Step Generator",
    "InterleaveStepOptions": "Step Options",
    "InterleaveDiffusersGenerator": "Diffusers Generator",
    "InterleaveServiceGenerator": "Service Generator",
    "InterleaveTinyWorldGenerator": "Tiny World Generator",
    "InterleavePluginGenerator": "Plug-in Generator",
    "InterleaveCriticLoop": "Critic Loop",
    "InterleaveTryOpen": "Try Open",
    "InterleaveTryClose": "Try Close",
    "InterleaveJudge": "Judge",
    "InterleaveSaveTrajectory": "Save Trajectory",
    "InterleaveLoadTrajectory": "Load Trajectory",
    "InterleaveStoryboard": "Storyboard",
    "InterleaveExport": "Export",
    "InterleaveFeedback": "Feedback",
}
OUTPUTS = 7
"""More than any node of the pack has, so that a graph's links find theirs."""


class AnyKind(str):
    """A socket type that equals every other."""

    __slots__ = ()

    def __ne__(self, other: object) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


def stand_ins() -> dict[str, type] | None:
    """Stand-ins for the nodes by id, None outside ComfyUI and where ComfyUI is new enough."""
    if "folder_paths" not in sys.modules or is_new_enough():
        return None
    line = (
        f"InterleaveThinker needs ComfyUI {OLDEST} or newer; this is {host_version()}. "
        "Update ComfyUI (Manager: Update ComfyUI), then restart it."
    )
    print(line, file=sys.stderr)
    return {node_id: stand_in(node_id, line) for node_id in NODE_IDS}


def is_new_enough() -> bool:
    """Whether the host has the form of nodes that the pack is written in."""
    try:
        from comfy_api.latest import ComfyExtension, io
    except ImportError:
        return False
    wanted = {"search_aliases", "enable_expand", "not_idempotent"}
    has_all = wanted <= set(inspect.signature(io.Schema).parameters)
    return (
        has_all and all(hasattr(io, name) for name in ("Autogrow", "DynamicCombo")) and bool(ComfyExtension)
    )


def host_version() -> str:
    """The host's version, in words where it does not say."""
    version = getattr(sys.modules.get("comfyui_version"), "__version__", None)
    if version is None:
        try:
            from comfyui_version import __version__ as version
        except ImportError:
            return "an older one"
    return str(version)


def stand_in(node_id: str, line: str) -> type:
    """A node of the host's first form without inputs, which raises RuntimeError with this line."""

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
