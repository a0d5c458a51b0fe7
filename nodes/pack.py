"""What the host is told about the pack. Adding a node: one class and one entry in NODES."""

from __future__ import annotations

from comfy_api.latest import ComfyExtension, io

from . import host
from .agents import LoadAgent
from .edit_plan import EditPlan, plan_routes
from .export import Export
from .feedback import FeedbackNode
from .host_agent import HostAgent
from .judge import Judge
from .live_routes import routes
from .loop import CriticLoop
from .other_generators import DiffusersGenerator, ServiceGenerator, TinyWorldGenerator
from .plan import Planner
from .remote_agent import RemoteAgent
from .step_generator import StepGenerator
from .story import Storyboard
from .trajectory_files import LoadTrajectory, SaveTrajectory
from .try_close import TryClose
from .try_inner import INNER_NODES
from .try_open import TryOpen

NODES: list[type[io.ComfyNode]] = [
    LoadAgent,
    RemoteAgent,
    HostAgent,
    Planner,
    EditPlan,
    StepGenerator,
    DiffusersGenerator,
    ServiceGenerator,
    TinyWorldGenerator,
    CriticLoop,
    TryOpen,
    TryClose,
    Judge,
    SaveTrajectory,
    LoadTrajectory,
    Storyboard,
    Export,
    FeedbackNode,
]


class InterleaveThinkerExtension(ComfyExtension):
    """What the host asks of the pack."""

    async def on_load(self) -> None:
        """Register the folder of the agents' checkpoints and the routes of the live view."""
        host.register_folders()
        host.register_routes([*routes(), *plan_routes()])

    async def get_node_list(self) -> list[type[io.ComfyNode]]:
        """All nodes, and those that only expansions use."""
        return [*NODES, *INNER_NODES]
