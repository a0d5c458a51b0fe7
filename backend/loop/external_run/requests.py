"""The steps of an external run, and the image that it needs next."""

from __future__ import annotations

from typing import NamedTuple

from pydantic import Field

from ...errors import Cancelled, SettingsError
from ...journal.store import DrawKey
from ...pictures import Picture
from ...types import (
    MAX_TEXT,
    CastShown,
    DrawSettings,
    Plan,
    Request,
    RunSettings,
    Step,
    StepResult,
    Text,
    Value,
    step_identity,
)
from ..images.earlier_images import ALL
from ..step_rules import step_source

ALL_STEPS = 0


class ExternalDrawRequest(Value):
    """The image that the loop needs next.

    `attempt` counts the generator calls of the step from 0; a batch is one call. `source=None` means
    text-to-image. If the plan has a cast, `cast` is what `prompt` says about it, and `plain` is the prompt
    without that.
    """

    step: int
    attempt: int
    prompt: Text
    seed: int
    source: Picture | None = None
    plain: Text = ""
    cast: CastShown | None = None

    def key(self, identity: str) -> DrawKey:
        """Return the cache key of the image for a generator with this identity."""
        source = self.source.digest if self.source else None
        generator = step_identity(identity, DrawSettings(cast=self.cast))
        return DrawKey(generator=generator, prompt=self.plain or self.prompt, seed=self.seed, source=source)


class DrawNeeded(Cancelled):
    """The run cannot continue before the image `wanted` is generated."""

    def __init__(self, wanted: ExternalDrawRequest) -> None:
        super().__init__(f"The image of step {wanted.step}, attempt {wanted.attempt + 1} is missing.")
        self.wanted = wanted


class ExternalDrawResult(NamedTuple):
    """The result of one generator call: its images (a batch has several) and the wall time in seconds.

    If the call failed, `error` is the message and `images` is empty.
    """

    wanted: ExternalDrawRequest
    images: tuple[Picture, ...]
    seconds: float = 0.0
    error: str = ""


class ExternalRun(Value):
    """What to run: `steps` of a request's plan. The first of them edits `source`; `None` means text-to-image.

    `earlier` are the results of the steps of the plan before these. They belong to the same trajectory.
    """

    request: Request
    plan: Plan
    steps: tuple[Step, ...] = Field(min_length=1)
    source: Picture | None = None
    earlier: tuple[StepResult, ...] = ()
    seed: int = 0


def run_from_prompt(prompt: str, source: Picture | None, seed: int) -> ExternalRun:
    """Return a run of one step: an image from a prompt, or an edit of `source`.

    Raises:
        SettingsError: The prompt is empty or too long.
    """
    if not prompt.strip():
        raise SettingsError("The prompt is empty.", "Write a prompt, or connect a plan.")
    if len(prompt) > MAX_TEXT:
        raise SettingsError(
            f"The prompt has {len(prompt)} characters; the maximum is {MAX_TEXT}.", "Shorten the prompt."
        )
    request = Request(text=prompt, images=(source,) if source else ())
    step = Step(number=1, prompt=prompt)
    return ExternalRun(request=request, plan=Plan(steps=(step,)), steps=(step,), source=source, seed=seed)


def run_from_plan(
    request: Request,
    plan: Plan,
    number: int,
    source: Picture | None,
    seed: int,
    earlier: tuple[StepResult, ...] = (),
) -> ExternalRun:
    """Return a run of one step of a plan, or of all steps after the `earlier` ones.

    Args:
        request: The request of the plan.
        plan: The plan.
        number: Number of the step, or `ALL_STEPS`.
        source: Image that the first step edits. Default: the last image of the earlier steps, else the last
            image of the request.
        seed: Base seed.
        earlier: Results of earlier steps.

    Raises:
        SettingsError: The plan does not have the step, the steps do not generate an image, or a step needs an
            image that these nodes cannot pass on.
    """
    last = max((result.step.number for result in earlier), default=0)
    chosen = [
        step for step in plan.steps if (step.number > last if number == ALL_STEPS else step.number == number)
    ]
    numbers = ", ".join(str(step.number) for step in plan.steps)
    if not chosen:
        which = f"step {number}" if number else f"step after step {last}"
        raise SettingsError(
            f"The plan does not have a {which}.", f"Its steps are {numbers}. Choose another step."
        )
    if not any(step.prompt for step in chosen):
        which = f"Step {number} of the plan is" if number else "The remaining steps are"
        drawn = ", ".join(str(step.number) for step in plan.steps if step.prompt) or "none"
        raise SettingsError(
            f"{which} text only, so no image is generated.", f"Steps with an image: {drawn}. Choose one."
        )
    if any(step.settings.source == ALL for step in chosen):
        raise SettingsError(
            "A step of the plan has source 'all' (all earlier images), but these nodes pass on one image.",
            "Set another source in Edit Plan, or use a Step Generator with the Critic Loop.",
        )
    kept = tuple(result for result in earlier if result.step.number < chosen[0].number)
    images = [*request.images, *(result.image for result in kept if result.image)]
    start = source or (images[-1] if images else None)
    own = chosen[0].settings.source
    if own not in (None, "text"):
        start = source or step_source(chosen[0], request, kept, RunSettings())
        # The source is now decided. The loop does not know the earlier steps, so it could not find it.
        left = chosen[0].settings.model_copy(update={"source": None})
        chosen[0] = chosen[0].model_copy(update={"settings": left})
    if start not in request.images[:1] and any(step.settings.source == "anchor" for step in chosen):
        raise SettingsError(
            "A later step of the plan edits the request's first image, but the first step of this loop does "
            "not start from that image.",
            "Run that step alone, with an Attempt Start of its own.",
        )
    return ExternalRun(request=request, plan=plan, steps=tuple(chosen), source=start, earlier=kept, seed=seed)
