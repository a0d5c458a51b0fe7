"""The node pack: V3 nodes as thin adapters around the backend. Adding a node: one class and one entry in NODES.

Decision: nodes translate between sockets and the backend and decide nothing. `host.py` is the only file that touches
`comfy`; libraries that may be missing or too old are imported when a node runs, so the pack always loads.
"""

from __future__ import annotations

from comfy_api.latest import ComfyExtension, io

from . import host
from .agents import LoadAgent
from .generators import StepGenerator, TinyWorldGenerator
from .loop import CriticLoop
from .plan import Planner
from .story import Storyboard

NODES: list[type[io.ComfyNode]] = [
    LoadAgent,
    Planner,
    StepGenerator,
    TinyWorldGenerator,
    CriticLoop,
    Storyboard,
]


class InterleaveThinkerExtension(ComfyExtension):
    """What the host asks of the pack."""

    async def on_load(self) -> None:
        """Register the folder of the agents' checkpoints."""
        host.register_folders()

    async def get_node_list(self) -> list[type[io.ComfyNode]]:
        """All nodes."""
        return NODES
