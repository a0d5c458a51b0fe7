"""What the host is told about the pack. Adding a node: one class and one entry in NODES."""

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
