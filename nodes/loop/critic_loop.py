"""Node that generates and judges the steps of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from comfy_api.latest import io

from ...backend.core.errors import GeneratorError, SettingsError
from ...backend.core.seams.chat_model import ChatModel
from ...backend.core.seams.generator import Generator
from ...backend.core.types import RunSettings, StepResult, StopReason, Trajectory
from ...backend.output.live.live_messages import waiting_in_display
from ...backend.output.report.run_report import image_texts, report
from ...backend.pipeline.as_published import (
    REPLY_SETTINGS,
    STORY_SETTINGS,
    PublishedSystem,
    not_as_published,
    with_published_size,
)
from ...backend.pipeline.story_check import MAX_REOPENED
from ...backend.story.journal.run_files import PICTURES
from ...backend.story.journal.waiting import Waiting
from ...backend.story.outcomes import is_complete
from .. import host
from ..inputs.images import to_batch
from ..inputs.loop_inputs import (
    OWN_SETTINGS,
    attempts_inputs,
    check_story_input,
    published_input,
    setting_input,
    strictness_input,
)
from ..inputs.run_folder import RUNS, RunWatch, run_folder
from ..inputs.sockets import (
    AGENT,
    GENERATOR,
    PLAN,
    GeneratorSocket,
    PlannedRequest,
    PlanSocket,
    TrajectorySocket,
    check_connected,
    check_optional,
    node_schema,
)
from ..inputs.validation import CUSTOM, Options, accept_at_of, checked, in_range, only_text
from ..plan.edit_plan import step_text
from .live_loop import carry_out

NO_LIMIT = 0.0
STOP = "stop"
"""Choice of `keep` that also sets `on_failure`, which only older workflows have set."""
watch = RunWatch()


class CriticLoop(io.ComfyNode):
    """Generates every step of a plan and repeats it with a refined prompt until the critic accepts it."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return node_schema(
            "InterleaveCriticLoop",
            is_output_node=True,
            not_idempotent=True,
            hidden=[io.Hidden.unique_id],
            shown=("max_attempts", "source", "strictness", "pause"),
            inputs=[
                PlanSocket.Input("plan"),
                GeneratorSocket.Input("generator", optional=True),
                *attempts_inputs(STOP),
                setting_input(RunSettings, "source"),
                setting_input(RunSettings, "on_failure"),
                setting_input(RunSettings, "seed", control_after_generate=io.ControlAfterGenerate.fixed),
                setting_input(
                    RunSettings,
                    "seed_rule",
                    options=Options(("every attempt", "every step"), "every try"),
                    optional=True,
                ),
                setting_input(
                    RunSettings, "time_budget", default=NO_LIMIT, min=0.0, max=1e6, step=10.0, optional=True
                ),
                setting_input(RunSettings, "candidates", optional=True),
                strictness_input(),
                setting_input(RunSettings, "derive_checklist", optional=True),
                setting_input(RunSettings, "pause", optional=True),
                check_story_input(),
                published_input(),
            ],
            outputs=[
                io.Image.Output("images", is_output_list=True),
                io.String.Output("texts", is_output_list=True),
                TrajectorySocket.Output("TRAJECTORY"),
                io.String.Output("report"),
                io.String.Output("image_texts", display_name="image texts", is_output_list=True),
            ],
        )

    @classmethod
    def fingerprint_inputs(cls, **inputs: Any) -> int:
        """Return a value that changes when the node must run again."""
        return watch.edition(cls.hidden.unique_id or "")

    @classmethod
    def execute(
        cls,
        plan: PlannedRequest,
        accept_at: float,
        generator: Generator | None = None,
        critic: ChatModel | None = None,
        time_budget: float = NO_LIMIT,
        strictness: str = CUSTOM,
        check_story: int = 0,
        as_published: str = OWN_SETTINGS,
        **settings: Any,
    ) -> io.NodeOutput:
        """Run the loop."""
        check_connected("Critic Loop", PLAN, plan=plan)
        check_optional("Critic Loop", GENERATOR, generator=generator)
        check_optional("Critic Loop", AGENT, critic=critic)
        only_text("Critic Loop", strictness=strictness, as_published=as_published)
        in_range("Critic Loop", 0, MAX_REOPENED, check_story=check_story)
        if check_story and critic is None:
            raise SettingsError(
                "Critic Loop: check_story is set, but no critic is connected that could check the story.",
                "Connect a critic, or set check_story to 0.",
            )
        if settings.get("keep") == STOP:
            settings |= {"keep": "best", "on_failure": "stop"}
        own = {"accept_at": accept_at_of(critic, strictness, accept_at), "time_budget": time_budget or None}
        preset = published_run(as_published, plan, generator, critic)
        policy = checked(RunSettings, "Critic Loop", **{**own, **settings, **preset.settings})
        folder = run_folder(host.output_folder(), plan.request, policy.seed)
        node = cls.hidden.unique_id or ""
        watch.runs(node, folder)
        with host.host_interrupts():
            ended = carry_out(
                preset.plan,
                generator,
                critic,
                policy,
                folder,
                workflow_of(cls.hidden),
                check_story,
                preset.replies,
            )
        checks = ended.trajectory.checks
        if ended.waiting or not is_complete(ended.trajectory) or (checks and checks[-1].warning):
            watch.incomplete(node)
        return results(ended.trajectory, folder, ended.waiting, preset.notes)


def results(
    trajectory: Trajectory, folder: Path, waiting: Waiting | None = None, notes: Sequence[str] = ()
) -> io.NodeOutput:
    """Return the outputs and the display of a run whose journal is in `folder`.

    Args:
        trajectory: The run.
        folder: Its folder.
        waiting: What the run waits for. It may then have no image yet.
        notes: Lines at the beginning of the report.

    Raises:
        GeneratorError: The plan has steps to generate, and none has an image or was skipped.
    """
    images = [result.image for result in trajectory.results if result.image]
    skipped = any(result.stop_reason is StopReason.skipped for result in trajectory.results)
    if not images and not waiting and not skipped and any(step.prompt for step in trajectory.plan.steps):
        raise GeneratorError("No image was generated.", why_nothing_was_drawn(trajectory))
    return io.NodeOutput(
        [to_batch(picture.image) for picture in images] or host.nothing(),
        [step_text_of(result) for result in trajectory.results],
        trajectory,
        "\n".join([*notes, report(trajectory)]),
        image_texts(trajectory.results) if images else host.nothing(),
        ui={
            **host.shown_files([folder / PICTURES / f"{picture.digest}.png" for picture in images]),
            RUNS: (folder.name,),
            **waiting_in_display(waiting),
        },
    )


def workflow_of(hidden: io.HiddenHolder) -> str | None:
    """Return the id of the workflow in the browser, `None` if the prompt came from elsewhere."""
    information = hidden.extra_pnginfo
    workflow = information.get("workflow") if isinstance(information, dict) else None
    identity = workflow.get("id") if isinstance(workflow, dict) else None
    return str(identity)[:200] if identity else None


def step_text_of(result: StepResult) -> str:
    """Return the text of a step for the reader."""
    step = result.step
    return step.auxiliary_text or step.instruction or step.name or step_text(step)


def why_nothing_was_drawn(trajectory: Trajectory) -> str:
    """Return the first error of a run, or that its time limit was reached."""
    attempts = [attempt for result in trajectory.results for attempt in result.attempts]
    fault = next((attempt.error.message for attempt in attempts if attempt.error), "")
    if not fault and any(result.stop_reason is StopReason.budget for result in trajectory.results):
        seconds = f"{trajectory.settings.time_budget:g} s"
        return f"The time limit of {seconds} was reached first. Raise 'time_budget'."
    return fault


SAMPLING = ("temperature", "top_p", "top_k")
OTHER_PLANNER = (
    "The plan was not sampled as in the released code. Set at the planner's agent: temperature "
    "{temperature}, top_p {top_p}, top_k {top_k}."
)


@dataclass(frozen=True)
class PublishedRun:
    """What a run uses of the published system.

    Attributes:
        plan: The plan, with the published size of its images.
        settings: Settings of the loop that replace the inputs of the node.
        replies: Reply settings of the critic that replace those of its agent.
        notes: What is not as published.
    """

    plan: PlannedRequest
    settings: dict[str, Any] = field(default_factory=dict)
    replies: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def published_run(
    name: str, planned: PlannedRequest, generator: Generator | None, critic: ChatModel | None
) -> PublishedRun:
    """Return what a run uses of the published system with this name; nothing for OWN_SETTINGS.

    Raises:
        SettingsError: The name is unknown.
    """
    if name == OWN_SETTINGS:
        return PublishedRun(planned)
    systems: dict[str, PublishedSystem] = {system: system for system in STORY_SETTINGS}
    system = systems.get(name)
    if system is None:
        choices = ", ".join((OWN_SETTINGS, *STORY_SETTINGS))
        raise SettingsError(f"Critic Loop: as_published is {name!r}.", f"Choose one of: {choices}.")
    replies = REPLY_SETTINGS[system]
    has_size = generator is not None and "size" in generator.step_settings
    prompts = {"planner": planned.prompt_set} if planned.planner else {}
    if critic is not None:
        prompts["critic"] = critic.prompt_set.digest if critic.prompt_set else ""
    notes = not_as_published(system, prompts, has_size or generator is None)
    sampling = {key: replies[key] for key in SAMPLING if key in replies}
    if planned.planner and not all(f'"{key}":{value}' in planned.planner for key, value in sampling.items()):
        notes.append(OTHER_PLANNER.format(**sampling))
    if has_size:
        planned = planned.model_copy(update={"plan": with_published_size(system, planned.plan)})
    return PublishedRun(planned, STORY_SETTINGS[system], replies, tuple(notes))
