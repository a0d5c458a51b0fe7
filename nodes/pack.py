"""The nodes that the pack registers with the host. Adding a node: one class and one entry in NODES."""

from __future__ import annotations

from comfy_api.latest import ComfyExtension, io

from . import host
from .agents.host_agent import HostAgent
from .agents.load_agent import LoadAgent, agent_routes
from .agents.remote_agent import RemoteAgent
from .attempt_loop.close import AttemptClose
from .attempt_loop.expanded import INNER_NODES
from .attempt_loop.open import AttemptOpen
from .generators.diffusers import DiffusersNode
from .generators.service import PluginGenerator, ServiceGenerator, TinyWorldNode
from .generators.step_generator import StepGenerator, StepOptionsNode
from .loop.critic_loop import CriticLoop
from .loop.judge import JudgeNode
from .loop.live_loop import routes
from .plan.cast import CastNode
from .plan.edit_plan import EditPlan, plan_routes
from .plan.planner import PlannerNode
from .story.clips import AddClips, ClipList
from .story.export import Export, Storyboard, export_routes
from .story.feedback import FeedbackNode
from .story.put_back import PutBackNode
from .story.trajectory import LoadTrajectory, SaveTrajectory

NODES: list[type[io.ComfyNode]] = [
    LoadAgent,
    RemoteAgent,
    HostAgent,
    PlannerNode,
    EditPlan,
    CastNode,
    StepGenerator,
    StepOptionsNode,
    DiffusersNode,
    ServiceGenerator,
    TinyWorldNode,
    PluginGenerator,
    CriticLoop,
    AttemptOpen,
    AttemptClose,
    JudgeNode,
    SaveTrajectory,
    LoadTrajectory,
    Storyboard,
    Export,
    FeedbackNode,
    PutBackNode,
    ClipList,
    AddClips,
]


class InterleaveThinkerExtension(ComfyExtension):
    """Registers the pack with the host."""

    async def on_load(self) -> None:
        """Register the agents' folder and the routes of the browser, and log what this host lacks."""
        host.name_errors_plainly()
        host.register_folders()
        host.register_routes([*routes(), *plan_routes(), *agent_routes(), *export_routes()])
        host.report_missing()

    async def get_node_list(self) -> list[type[io.ComfyNode]]:
        """Return all nodes, including those that only expansions use."""
        return [*NODES, *INNER_NODES]
