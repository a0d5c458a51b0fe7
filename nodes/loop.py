"""The node that carries out a plan."""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io
from PIL import Image

from ..backend.chat.protocol import ChatModel
from ..backend.errors import GeneratorError
from ..backend.events import AttemptDrawn, AttemptJudged, Event, Finished
from ..backend.exporters.sheet import contact_sheet
from ..backend.generators.protocol import Generator
from ..backend.loop import Judges, run
from ..backend.types import RunSettings, StepResult, Trajectory
from . import host
from .images import to_batch
from .interruptible import InterruptibleGenerator
from .plan_text import step_text
from .run_folder import run_folder
from .run_view import RunView, report
from .sockets import CATEGORY, AgentSocket, GeneratorSocket, PlannedRequest, PlanSocket, TrajectorySocket
from .surroundings import needing

OWN_WORD = 0.0
PREVIEW_COLUMNS = 2
FIELDS = RunSettings.model_fields


class CriticLoop(io.ComfyNode):
    """Draws every step of a plan, has it judged, and redraws it with a better prompt until it is right."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="InterleaveCriticLoop",
            display_name="Critic Loop",
            category=CATEGORY,
            description="Draws, judges and redraws every step. Everything finished is kept in output/interleave-thinker: "
            "queue it again after a crash or a change, and only what is new is drawn.",
            search_aliases=["critic", "judge", "refine", "retry until right", "story", "interleave", "loop"],
            is_output_node=True,
            inputs=[
                PlanSocket.Input("plan", tooltip="From a Planner."),
                GeneratorSocket.Input(
                    "generator", tooltip="What draws: a Step Generator or the tiny world's."
                ),
                AgentSocket.Input(
                    "critic",
                    optional=True,
                    tooltip="The agent that judges. Without one each step is drawn once.",
                ),
                io.Int.Input(
                    "max_attempts", default=5, min=1, max=100, tooltip=FIELDS["max_attempts"].description
                ),
                io.Float.Input(
                    "accept_at",
                    default=OWN_WORD,
                    min=0.0,
                    max=1.0,
                    step=0.05,
                    tooltip="Probability of success needed to accept an image; 0 takes the critic's own word.",
                ),
                io.Combo.Input(
                    "keep", options=["best", "last"], default="best", tooltip=FIELDS["keep"].description
                ),
                io.Combo.Input(
                    "source",
                    options=["previous", "first", "anchor"],
                    default="previous",
                    tooltip=FIELDS["source"].description,
                ),
                io.Combo.Input(
                    "on_failure",
                    options=["keep", "stop"],
                    default="keep",
                    tooltip=FIELDS["on_failure"].description,
                ),
                io.Int.Input(
                    "seed",
                    default=0,
                    min=0,
                    max=2**48,
                    control_after_generate=io.ControlAfterGenerate.fixed,
                    tooltip=FIELDS["seed"].description,
                ),
            ],
            outputs=[
                io.Image.Output("images", is_output_list=True, tooltip="The kept image of every drawn step."),
                io.String.Output("texts", is_output_list=True, tooltip="The text of every step."),
                TrajectorySocket.Output("TRAJECTORY", tooltip="The whole run, for a Storyboard."),
                io.String.Output("report", tooltip="How every step and every try went."),
            ],
        )

    @classmethod
    def execute(
        cls,
        plan: PlannedRequest,
        generator: Generator,
        accept_at: float,
        critic: ChatModel | None = None,
        **settings: Any,
    ) -> io.NodeOutput:
        policy = RunSettings(accept_at=accept_at or None, **settings)
        with host.host_interrupts():
            trajectory = run_in_host(plan, generator, critic, policy)
        images = [result.image for result in trajectory.results if result.image]
        if not images and any(step.prompt for step in plan.plan.steps):
            raise GeneratorError("No step has an image.", first_fault(trajectory))
        batches = [to_batch(picture.image) for picture in images]
        return io.NodeOutput(
            batches or host.nothing(),
            [step_text_of(result) for result in trajectory.results],
            trajectory,
            report(trajectory),
            ui=host.shown_images(batches, cls),
        )


def run_in_host(
    plan: PlannedRequest, generator: Generator, chat: ChatModel | None, settings: RunSettings
) -> Trajectory:
    """Run the loop with its journal below the host's output folder, showing it on the node. Raises Cancelled."""
    from ..backend.journal import Journal

    critic = None if chat is None else critic_with(chat)
    journal = Journal(run_folder(host.output_folder(), plan.request))
    view = RunView(plan.plan, settings, judged=critic is not None)
    progress = host.NodeProgress()
    trajectory = None
    with host.listening_to_steps(lambda share, preview: progress.show(view.within_try(share), preview)):
        drawer = InterruptibleGenerator(generator)
        for event in run(plan.request, None, drawer, critic, settings, journal, plan=plan.plan):
            view.follow(event)
            if isinstance(event, Finished):
                trajectory = event.trajectory
            preview = preview_of(event)
            progress.show(view.share, host.as_preview(preview) if preview else None)
            progress.say(view.line)
    assert trajectory is not None  # Finished is the last event of every stream
    return trajectory


def preview_of(event: Event) -> Image.Image | None:
    """What the node shows at this moment: the newest image, and at the end, since it stays, the whole story."""
    if isinstance(event, AttemptDrawn | AttemptJudged) and event.record.image is not None:
        return event.record.image.image
    if isinstance(event, Finished) and any(result.image for result in event.trajectory.results):
        return contact_sheet(event.trajectory, columns=PREVIEW_COLUMNS, captions=False)
    return None


def critic_with(chat: ChatModel) -> Judges:
    """The critic that speaks through this agent."""
    with needing("json-repair"):
        from ..backend.agents import Critic

    return Critic(chat)


def step_text_of(result: StepResult) -> str:
    """What the story says at a step."""
    step = result.step
    return step.auxiliary_text or step.instruction or step.name or step_text(step)


def first_fault(trajectory: Trajectory) -> str:
    """What went wrong first."""
    attempts = [attempt for result in trajectory.results for attempt in result.attempts]
    return next((attempt.error.message for attempt in attempts if attempt.error), "")
