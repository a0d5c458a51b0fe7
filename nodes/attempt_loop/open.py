"""Where a sub-graph that is tried until the critic accepts begins.

Decision: what differs from try to try comes out of here and nowhere else (prompt, seed, image to edit,
number), so that everything wired to it is redrawn and everything else is not.
"""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io

from ...backend.errors import SettingsError
from ...backend.loop.external import (
    ALL_STEPS,
    ExternalDrawRequest,
    ExternalRun,
    first_draw,
    run_from_plan,
    run_from_prompt,
)
from ...backend.pictures import Picture
from ...backend.types import MAX_STEPS, RunSettings, Trajectory, Value
from ..host import expansion
from ..inputs.connected import PLAN, TRAJECTORY, Kind, check_optional, instance_of
from ..inputs.images import only_picture, to_batch
from ..inputs.request import asked_request
from ..inputs.sockets import CATEGORY, PlannedRequest, PlanSocket, TrajectorySocket

MAX_SEED = 2**48

AttemptSocket = io.Custom("INTERLEAVE_TRY")


class OpenedAttempt(Value):
    """One try of a trial: what Try Open hands to its Try Close."""

    external_run: ExternalRun
    wanted: ExternalDrawRequest


ATTEMPT = Kind("a try", instance_of(OpenedAttempt))


def opened_outputs() -> list[io.Output]:
    """The outputs of Try Open, and of the node that stands in its place at later tries."""
    return [
        AttemptSocket.Output("try", tooltip="Connect it to the Try Close that ends these nodes."),
        io.String.Output("prompt", tooltip="What to draw: at first as given, then as the critic refined it."),
        io.Int.Output("seed", tooltip="Another one for every step and every try."),
        io.Image.Output(
            "source_image",
            display_name="source image",
            tooltip="The image to edit, before this step. There is none for a picture from text alone.",
        ),
        io.Int.Output("attempt", tooltip="Number of the try, from 1."),
        io.Int.Output("step_number", display_name="step", tooltip="Number of the plan's step, from 1."),
    ]


def opened_values(opened: OpenedAttempt) -> io.NodeOutput:
    """The values of these outputs."""
    wanted = opened.wanted
    without = (
        "There is no image to edit: connect one to Try Open's source_image (a blank one from Empty "
        "Image will do)."
    )
    source = expansion.missing(without) if wanted.source is None else to_batch(wanted.source.image)
    return io.NodeOutput(opened, wanted.prompt, wanted.seed, source, wanted.attempt + 1, wanted.step)


class AttemptOpen(io.ComfyNode):
    """Begins nodes of your own that are tried until the critic accepts their image."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="InterleaveTryOpen",
            display_name="Try Open",
            category=CATEGORY,
            description="Begins a part of your graph (your own sampler, ControlNet, upscaler, "
            "an API node...) that is drawn again, with a better prompt and a new seed, until the critic "
            "at Try Close accepts its image. Give a prompt, a plan, or the story of a Try Close before.",
            search_aliases=[
                "loop start",
                "retry",
                "while",
                "repeat",
                "own sampler",
                "for loop",
                "begin loop",
            ],
            inputs=[
                io.String.Input(
                    "prompt",
                    multiline=True,
                    default="",
                    tooltip="What to draw, or what to change in the source image. "
                    "Leave it empty if a plan or a story is connected.",
                ),
                io.Int.Input(
                    "step",
                    default=ALL_STEPS,
                    min=ALL_STEPS,
                    max=10 * MAX_STEPS,
                    tooltip="Number of the plan's step to draw; "
                    "0 draws all of them, one after the other, with the same nodes.",
                ),
                io.Int.Input(
                    "seed",
                    default=0,
                    min=0,
                    max=MAX_SEED,
                    control_after_generate=io.ControlAfterGenerate.fixed,
                    tooltip=RunSettings.model_fields["seed"].description,
                ),
                PlanSocket.Input("plan", optional=True, tooltip="The plan whose steps are drawn."),
                TrajectorySocket.Input(
                    "story",
                    optional=True,
                    tooltip=(
                        "The trajectory of the Try Close before: its plan is continued from its last image."
                    ),
                ),
                io.Image.Input(
                    "source_image",
                    optional=True,
                    tooltip="Image to edit. Without one the story's last image is taken, "
                    "else the last of the plan's request, else it is drawn from text alone.",
                ),
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
        if not 0 <= seed <= MAX_SEED:
            raise SettingsError(
                f"Try Open's seed is {seed}.", f"Give one from 0 to {MAX_SEED} (2 to the 48th)."
            )
        check_optional("Try Open", PLAN, plan=plan)
        check_optional("Try Open", TRAJECTORY, story=story)
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
    """What these inputs ask for; raises SettingsError where they contradict one another."""
    if plan is None and story is None:
        asked_request(prompt, None)  # the same bounds as a request's
        return run_from_prompt(prompt, source, seed)
    if prompt.strip():
        raise SettingsError(
            "Try Open has a prompt beside a plan or a story, whose steps have prompts of their own.",
            "Empty the prompt, or disconnect the plan.",
        )
    if story is None:
        assert plan is not None
        return run_from_plan(plan.request, plan.plan, step, source, seed)
    if plan is not None and (plan.request, plan.plan) != (story.request, story.plan):
        raise SettingsError(
            "Try Open has a plan and the story of another one.", "Connect only the story; it brings its plan."
        )
    return run_from_plan(story.request, story.plan, step, source, seed, story.results)
