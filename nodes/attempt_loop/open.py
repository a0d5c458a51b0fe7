"""Node that begins a part of a graph which is repeated until the critic accepts its image.

Everything that differs between attempts is an output of this node (prompt, seed, image to edit, numbers). So
the nodes connected to it run again, and all others do not.
"""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io

from ...backend.core.errors import SettingsError
from ...backend.core.pictures import Picture
from ...backend.core.types import MAX_STEPS, Trajectory, Value
from ...backend.story.loop.external import (
    ALL_STEPS,
    ExternalDrawRequest,
    ExternalRun,
    first_draw,
    run_from_plan,
    run_from_prompt,
)
from ..host import running_graph
from ..inputs.images import only_picture, to_batch
from ..inputs.sockets import (
    PLAN,
    TRAJECTORY,
    Kind,
    PlannedRequest,
    PlanSocket,
    TrajectorySocket,
    asked_request,
    check_optional,
    instance_of,
    node_schema,
)

MAX_SEED = 2**48

AttemptSocket = io.Custom("INTERLEAVE_TRY")


class OpenedAttempt(Value):
    """One attempt, passed from Attempt Start to its Attempt End."""

    external_run: ExternalRun
    wanted: ExternalDrawRequest


ATTEMPT = Kind("an attempt from Attempt Start", instance_of(OpenedAttempt))


def opened_outputs() -> list[io.Output]:
    """Return the outputs of Attempt Start, and of the node that replaces it at later attempts."""
    return [
        AttemptSocket.Output("try"),
        io.String.Output("prompt"),
        io.Int.Output("seed"),
        io.Image.Output("source_image", display_name="source image"),
        io.Int.Output("attempt"),
        io.Int.Output("step_number", display_name="step"),
    ]


def opened_values(opened: OpenedAttempt) -> io.NodeOutput:
    """Return the values of these outputs."""
    wanted = opened.wanted
    without = (
        "This step has no image to edit. Connect one to source_image of Attempt Start (a blank one from "
        "Empty Image is enough)."
    )
    source = running_graph.missing(without) if wanted.source is None else to_batch(wanted.source.image)
    return io.NodeOutput(opened, wanted.prompt, wanted.seed, source, wanted.attempt + 1, wanted.step)


class AttemptOpen(io.ComfyNode):
    """Begins a part of the graph that is repeated until the critic accepts its image."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return node_schema(
            "InterleaveTryOpen",
            shown=("prompt", "step"),
            inputs=[
                io.String.Input("prompt", multiline=True, default=""),
                io.Int.Input("step", default=ALL_STEPS, min=ALL_STEPS, max=10 * MAX_STEPS),
                io.Int.Input(
                    "seed",
                    default=0,
                    min=0,
                    max=MAX_SEED,
                    control_after_generate=io.ControlAfterGenerate.fixed,
                ),
                PlanSocket.Input("plan", optional=True),
                TrajectorySocket.Input("story", optional=True),
                io.Image.Input("source_image", optional=True),
            ],
            outputs=opened_outputs(),
        )

    @classmethod
    def execute(
        cls,
        prompt: str,
        step: int,
        seed: int,
        plan: PlannedRequest | None = None,
        story: Trajectory | None = None,
        source_image: Any = None,
    ) -> io.NodeOutput:
        """Return the values of the first attempt."""
        if not 0 <= seed <= MAX_SEED:
            raise SettingsError(
                f"Attempt Start: the seed {seed} is out of range.",
                f"Use 0 to {MAX_SEED} (2 to the power of 48).",
            )
        check_optional("Attempt Start", PLAN, plan=plan)
        check_optional("Attempt Start", TRAJECTORY, story=story)
        source = None if source_image is None else only_picture(source_image, "source_image")
        external_run = run_from_inputs(prompt, step, seed, plan, story, source)
        return opened_values(OpenedAttempt(external_run=external_run, wanted=first_draw(external_run)))


def run_from_inputs(
    prompt: str,
    step: int,
    seed: int,
    plan: PlannedRequest | None,
    story: Trajectory | None,
    source: Picture | None,
) -> ExternalRun:
    """Return the run that these inputs describe.

    Raises:
        SettingsError: The inputs contradict each other.
    """
    if plan is None and story is None:
        asked_request(prompt, None)  # the same bounds as a request's
        return run_from_prompt(prompt, source, seed)
    if prompt.strip():
        raise SettingsError(
            "Attempt Start has both a prompt and a plan or story, whose steps have their own prompts.",
            "Clear the prompt, or disconnect the plan and the story.",
        )
    if story is None:
        assert plan is not None
        return run_from_plan(plan.request, plan.plan, step, source, seed)
    if plan is not None and (plan.request, plan.plan) != (story.request, story.plan):
        raise SettingsError(
            "Attempt Start: the connected story belongs to another plan than the connected one.",
            "Connect only the story, which contains its plan.",
        )
    return run_from_plan(story.request, story.plan, step, source, seed, story.results)
