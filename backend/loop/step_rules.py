"""What a step's own settings change of the run's rules, as pure functions, and the check that all of them can
be honoured.

Decision: a setting that cannot be honoured is an error before the first step, since an image that silently
ignores what a person asked for would be found at the end of the story.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import SettingsError, SourceMissing
from ..generators.protocol import Generator, TakesStepSettings
from ..pictures import Picture
from ..types import Attempt, Plan, Request, RunSettings, Step, StepResult
from .policy import attempt_seed, hashed_seed, source_of

BY_EDITING = "Change it in the plan (Edit Plan, or plan.json)."


def check_steps(plan: Plan, request: Request, generator: Generator) -> None:
    """Raise SettingsError for the first setting of a step that cannot be honoured; images that steps name are
    read by then (files/step_images.py)."""
    taken = generator.step_settings if isinstance(generator, TakesStepSettings) else frozenset()
    drawn: set[int] = set()
    for step in plan.steps:
        source = step.settings.source
        if isinstance(source, int) and source not in drawn:
            raise SettingsError(
                f"Step {step.number} is to edit the image of step {source}, which is no earlier step that is "
                "drawn.",
                BY_EDITING,
            )
        if source == "anchor" and not request.images:
            raise SettingsError(
                f"Step {step.number} is to edit the request's first image, but the request has none.",
                BY_EDITING,
            )
        for name in (*step.settings.of_draw, *step.settings.images):
            if name not in taken:
                raise SettingsError(
                    f"Step {step.number} has a {name} of its own, which this generator cannot take as it is "
                    "set.",
                    BY_EDITING,
                )
        for name, image in step.settings.images.items():
            if image.picture is None:
                raise SettingsError(f"Step {step.number}, {name}: {image.name!r} was not read.", BY_EDITING)
        edits = bool(drawn or request.images) and source != "text"
        if step.settings.mask and not edits:
            raise SettingsError(
                f"Step {step.number} has a mask, but draws from text: there is no image to change a part of.",
                BY_EDITING,
            )
        if step.settings.of_draw and isinstance(generator, TakesStepSettings):
            generator.with_step_settings(step.settings)
        if step.prompt:
            drawn.add(step.number)


def max_attempts_of(step: Step, settings: RunSettings) -> int:
    """Draws of a step at most."""
    return step.settings.tries or settings.max_attempts


def max_attempts_in(plan: Plan | None, settings: RunSettings) -> int:
    """The most draws that a step of the plan may take."""
    return (
        max((max_attempts_of(step, settings) for step in plan.steps), default=1)
        if plan
        else settings.max_attempts
    )


def step_seed(step: Step, attempt: int, settings: RunSettings) -> int:
    """Seed of attempt `attempt` (0-based). A step's own is that of its first, so that an image that was seen
    can be had again by its seed; the others are made from it as from a run's."""
    own = step.settings.seed
    base = settings.seed if own is None else own
    place = attempt if settings.seed_rule == "every try" else attempt % settings.candidates
    if own is not None and place == 0:
        return own
    return attempt_seed(base, step.number, attempt, settings.seed_rule, settings.candidates)


def redraw_seed(
    step: Step, settings: RunSettings, number: int, prompt: str, attempts: Sequence[Attempt]
) -> int:
    """Seed of the redraw of this number (from 1) that a person asked for at a step, made from the run's base
    seed.

    It shares none with the step's own attempts, so the same prompt is another image, except with the rule
    "every step" for a prompt that none of `attempts` had: then only the prompt is to change.
    """
    if settings.seed_rule == "every step" and all(attempt.prompt != prompt for attempt in attempts):
        return step_seed(step, 0, settings)
    return hashed_seed(f"{settings.seed}/{step.number}/redraw {number}")


def step_source(
    step: Step, request: Request, earlier: Sequence[StepResult], settings: RunSettings
) -> Picture | None:
    """The image that a step edits; None is text-to-image. Raises SourceMissing if the step that it is to edit
    has no image, or the request none."""
    own = step.settings.source
    if own == "text":
        return None
    if isinstance(own, int):
        image = next((result.image for result in earlier if result.step.number == own), None)
        if image is None:
            raise SourceMissing(
                f"Step {own}, which this step is to edit, has no image.",
                "Draw that step before, and connect its story.",
            )
        return image
    rule = settings if own is None else settings.model_copy(update={"source": own})
    if rule.source == "anchor" and not request.images:
        raise SourceMissing(
            f"Step {step.number} is to edit the request's first image, but the request has none.",
            "Connect one to the plan's request.",
        )
    return source_of(request, earlier, rule)
