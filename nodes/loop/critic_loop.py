"""The node that carries out a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from comfy_api.latest import io

from ...backend.chat.protocol import ChatModel
from ...backend.errors import GeneratorError
from ...backend.generators.protocol import Generator
from ...backend.journal.files import PICTURES
from ...backend.report.completeness import is_complete
from ...backend.report.image_texts import image_texts
from ...backend.report.text import report
from ...backend.types import RunSettings, StepResult, StopReason, Trajectory
from .. import host
from ..agents.interruptible import critic_with  # noqa: F401 - others import it from here
from ..agents.strictness import accept_at_of
from ..inputs.connected import AGENT, GENERATOR, PLAN, check_connected, check_optional
from ..inputs.images import to_batch
from ..inputs.loop_inputs import (
    accept_at_input,
    candidates_input,
    critic_input,
    keep_input,
    max_attempts_input,
)
from ..inputs.run_folder import RUNS, RunWatch, run_folder
from ..inputs.sockets import (
    CATEGORY,
    GeneratorSocket,
    PlannedRequest,
    PlanSocket,
    TrajectorySocket,
)
from ..inputs.validation import checked
from ..plan.outline_text import step_text
from .live_loop import carry_out

NO_LIMIT = 0.0
FIELDS = RunSettings.model_fields

watch = RunWatch()


class CriticLoop(io.ComfyNode):
    """Draws every step of a plan, has it judged, and redraws it with a better prompt until it is right."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="InterleaveCriticLoop",
            display_name="Critic Loop",
            category=CATEGORY,
            description="Draws, judges and redraws every step. Everything finished is kept in "
            "output/interleave-thinker: "
            "queue it again after a crash or a change, and only what is new is drawn.",
            search_aliases=["critic", "judge", "refine", "retry until right", "story", "interleave", "loop"],
            is_output_node=True,
            not_idempotent=True,
            hidden=[io.Hidden.unique_id],
            inputs=[
                PlanSocket.Input("plan", tooltip="From a Planner or Edit Plan."),
                GeneratorSocket.Input("generator", tooltip="What draws: any of the Generator nodes."),
                critic_input(),
                max_attempts_input(),
                accept_at_input(
                    "Strictness: the probability of success needed to accept an image. "
                    "0 takes what the critic was loaded with, else its own word."
                ),
                keep_input(),
                io.Combo.Input(
                    "source",
                    options=["previous", "first", "anchor", "all"],
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
                io.Combo.Input(
                    "seed_rule",
                    options=["every try", "every step"],
                    default="every try",
                    optional=True,
                    advanced=True,
                    tooltip=FIELDS["seed_rule"].description,
                ),
                io.Float.Input(
                    "time_budget",
                    default=NO_LIMIT,
                    min=0.0,
                    max=1e6,
                    step=10.0,
                    optional=True,
                    advanced=True,
                    tooltip="Seconds for the whole run; no try starts after that, and queueing again goes "
                    "on. "
                    "0 is no limit.",
                ),
                candidates_input(),
            ],
            outputs=[
                io.Image.Output("images", is_output_list=True, tooltip="The kept image of every drawn step."),
                io.String.Output("texts", is_output_list=True, tooltip="The text of every step."),
                TrajectorySocket.Output(
                    "TRAJECTORY",
                    tooltip="The whole run, for a Storyboard, an Export, Feedback or Save Trajectory.",
                ),
                io.String.Output("report", tooltip="How every step and every try went."),
                io.String.Output(
                    "image_texts",
                    display_name="image texts",
                    is_output_list=True,
                    tooltip="The text of every image, as many as 'images'; a step of words alone adds its "
                    "own to the image before it.",
                ),
            ],
        )

    @classmethod
    def fingerprint_inputs(cls, **inputs: Any) -> int:
        return watch.edition(cls.hidden.unique_id or "")

    @classmethod
    def execute(
        cls,
        plan: PlannedRequest,
        generator: Generator,
        accept_at: float,
        critic: ChatModel | None = None,
        time_budget: float = NO_LIMIT,
        **settings: Any,
    ) -> io.NodeOutput:
        check_connected("Critic Loop", PLAN, plan=plan)
        check_connected("Critic Loop", GENERATOR, generator=generator)
        check_optional("Critic Loop", AGENT, critic=critic)
        own = {"accept_at": accept_at_of(critic, accept_at), "time_budget": time_budget or None}
        policy = checked(RunSettings, "Critic Loop", **own, **settings)
        folder = run_folder(host.output_folder(), plan.request, policy.seed)
        node = cls.hidden.unique_id or ""
        watch.runs(node, folder)
        with host.host_interrupts():
            trajectory = carry_out(plan, generator, critic, policy, folder, workflow_of(cls.hidden))
        if not is_complete(trajectory):
            watch.incomplete(node)
        return results(trajectory, folder)


def results(trajectory: Trajectory, folder: Path) -> io.NodeOutput:
    """The outputs and the display of a run whose journal is in `folder`. Raises GeneratorError if nothing was
    drawn of what was to be drawn."""
    images = [result.image for result in trajectory.results if result.image]
    if not images and any(step.prompt for step in trajectory.plan.steps):
        raise GeneratorError("No step has an image.", why_nothing_was_drawn(trajectory))
    return io.NodeOutput(
        [to_batch(picture.image) for picture in images] or host.nothing(),
        [step_text_of(result) for result in trajectory.results],
        trajectory,
        report(trajectory),
        image_texts(trajectory.results) if images else host.nothing(),
        ui={
            **host.shown_files([folder / PICTURES / f"{picture.digest}.png" for picture in images]),
            RUNS: (folder.name,),
        },
    )


def workflow_of(hidden: io.HiddenHolder) -> str | None:
    """Id of the workflow in the browser, None where the prompt did not come from one."""
    information = hidden.extra_pnginfo
    workflow = information.get("workflow") if isinstance(information, dict) else None
    identity = workflow.get("id") if isinstance(workflow, dict) else None
    return str(identity)[:200] if identity else None


def step_text_of(result: StepResult) -> str:
    """The story's text at a step."""
    step = result.step
    return step.auxiliary_text or step.instruction or step.name or step_text(step)


def why_nothing_was_drawn(trajectory: Trajectory) -> str:
    """What went wrong first, or that there was no time."""
    attempts = [attempt for result in trajectory.results for attempt in result.attempts]
    fault = next((attempt.error.message for attempt in attempts if attempt.error), "")
    if not fault and any(result.stop_reason is StopReason.budget for result in trajectory.results):
        seconds = f"{trajectory.settings.time_budget:g} s"
        return f"The time budget of {seconds} was used up before: raise 'time_budget'."
    return fault
