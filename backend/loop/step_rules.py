"""Pure functions for what a step's own settings change, and the check that all of them are supported.

An unsupported setting is an error before the first step. Otherwise the user would find the image that ignores
it at the end of the story.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..errors import GeneratorError, SettingsError, SourceMissing
from ..generators.generator import Generator
from ..pictures import Picture
from ..types import (
    MAX_TEXT,
    Attempt,
    Plan,
    Request,
    Rewritten,
    RunSettings,
    Step,
    StepLora,
    StepResult,
    StepSettings,
    in_style,
)
from .policy import attempt_seed, draws_of, hashed_seed, source_of

BY_EDITING = "Change it in the plan (Edit Plan, or plan.json)."


def check_steps(plan: Plan, request: Request, generator: Generator) -> None:
    """Check that every setting of every step is supported.

    Images that steps name must be loaded before (files/step_images.py).

    Raises:
        SettingsError: A setting is not supported by the generator, or needs an image that does not exist.
        GeneratorError: The generator cannot load the LoRA of a step.
    """
    _check_taken(plan, generator)
    drawn: set[int] = set()
    for step in plan.steps:
        source = step.settings.source
        if isinstance(source, int) and source not in drawn:
            raise SettingsError(
                f"Step {step.number} edits the image of step {source}, but that is not an earlier step with "
                "an image.",
                BY_EDITING,
            )
        if source == "anchor" and not request.images:
            raise SettingsError(
                f"Step {step.number} edits the request's first image, but the request has none.",
                BY_EDITING,
            )
        for name, image in step.settings.images.items():
            if image.picture is None:
                raise SettingsError(
                    f"Step {step.number}, {name}: the image {image.name!r} was not loaded.", BY_EDITING
                )
        edits = bool(drawn or request.images) and source != "text"
        if step.settings.mask and not edits:
            raise SettingsError(
                f"Step {step.number} has a mask, but it generates from text and does not edit an image.",
                BY_EDITING,
            )
        if step.settings.of_draw:
            with _of_step(step):
                generator.with_step_settings(step.settings)
        if step.prompt:
            drawn.add(step.number)


def _check_taken(plan: Plan, generator: Generator) -> None:
    """Check that the generator supports all settings of all steps.

    Raises:
        SettingsError: It does not. The message names all steps with the first such setting.
    """
    taken = generator.step_settings
    unsupported: dict[str, list[str]] = {}
    for step in plan.steps:
        for name in dict.fromkeys((*step.settings.of_draw, *step.settings.images)):
            if name not in taken:
                unsupported.setdefault(name, []).append(str(step.number))
    for name, numbers in unsupported.items():
        who = f"Step {numbers[0]} sets its" if len(numbers) == 1 else f"Steps {', '.join(numbers)} set their"
        raise SettingsError(
            f"{who} own {name}, but this generator does not support {name} in its current configuration.",
            "Remove it from the plan (Edit Plan, or plan.json), or use a generator that supports it.",
        )


def with_loras(plan: Plan, generator: Generator) -> Plan:
    """Return the plan with the content digest of each LoRA that its steps name.

    A generator without LoRAs of steps leaves the plan unchanged, and `check_steps` reports it.

    Raises:
        SettingsError: The generator does not have a LoRA. The message names the step.
    """
    if "lora" not in generator.step_settings:
        return plan
    digests: dict[str, str | None] = {}

    def found(settings: StepSettings) -> StepSettings:
        if settings.lora is None:
            return settings
        name = settings.lora.name
        if name not in digests:
            digests[name] = generator.lora_digest(name)
        digest = digests[name] or settings.lora.digest
        return settings.model_copy(update={"lora": StepLora(name=name, digest=digest)})

    def of_step(step: Step) -> Step:
        with _of_step(step):
            changes: dict[str, object] = {"settings": found(step.settings)}
            if step.rewritten is not None:
                before = found(step.rewritten.settings)
                changes["rewritten"] = step.rewritten.model_copy(update={"settings": before})
        return step.model_copy(update=changes)

    steps = tuple(of_step(step) for step in plan.steps)
    return plan if steps == plan.steps else plan.model_copy(update={"steps": steps})


@contextmanager
def _of_step(step: Step) -> Iterator[None]:
    """Add the number of the step to an error about its settings."""
    try:
        yield
    except SettingsError as error:
        raise SettingsError(f"Step {step.number}: {error.message}", error.hint or BY_EDITING) from error
    except GeneratorError as error:
        raise GeneratorError(f"Step {step.number}: {error.message}", error.hint or BY_EDITING) from error


def max_attempts_of(step: Step, settings: RunSettings) -> int:
    """Return the maximum number of attempts of a step."""
    return step.settings.tries or settings.max_attempts


def max_attempts_in(plan: Plan | None, settings: RunSettings) -> int:
    """Return the largest number of attempts that a step of the plan may use."""
    return (
        max((max_attempts_of(step, settings) for step in plan.steps), default=1)
        if plan
        else settings.max_attempts
    )


def step_seed(step: Step, attempt: int, settings: RunSettings) -> int:
    """Return the seed of attempt `attempt` (from 0).

    A step's own seed is the seed of its first attempt, so an image can be reproduced from the seed that is
    shown. The seeds of the other attempts are derived from it, as from a run's base seed.
    """
    own = step.settings.seed
    base = settings.seed if own is None else own
    place = attempt if settings.seed_rule == "every try" else attempt % settings.candidates
    if own is not None and place == 0:
        return own
    return attempt_seed(base, step.number, attempt, settings.seed_rule, settings.candidates)


def redraw_seed(
    step: Step,
    settings: RunSettings,
    number: int,
    prompt: str,
    attempts: Sequence[Attempt],
    turn: int = 0,
) -> int:
    """Return the seed of a requested attempt, derived from the run's base seed.

    It differs from the seeds of the step's own attempts, so the same prompt gives another image. Exception:
    with the seed rule "every step" and a new prompt the step's seed is used, since only the prompt should
    change.

    Args:
        step: The step.
        settings: The run's settings.
        number: Number of the request, from 1.
        prompt: Its prompt.
        attempts: The attempts so far.
        turn: Number of the request's generator call, from 0.
    """
    if settings.seed_rule == "every step" and all(attempt.prompt != prompt for attempt in attempts):
        return step_seed(step, 0, settings)
    return hashed_seed(f"{settings.seed}/{step.number}/redraw {number}{f'.{turn}' if turn else ''}")


def step_source(
    step: Step, request: Request, earlier: Sequence[StepResult], settings: RunSettings
) -> Picture | None:
    """Return the image that a step edits; `None` means text-to-image.

    Raises:
        SourceMissing: The step that it refers to does not have an image, or the request has none.
    """
    own = step.settings.source
    if own == "text":
        return None
    if isinstance(own, int):
        image = next((result.image for result in earlier if result.step.number == own), None)
        if image is None:
            raise SourceMissing(
                f"Step {own}, which this step edits, does not have an image.",
                "Generate that step first, and connect its story.",
            )
        return image
    rule = settings if own is None else settings.model_copy(update={"source": own})
    if rule.source == "anchor" and not request.images:
        raise SourceMissing(
            f"Step {step.number} edits the request's first image, but the request has none.",
            "Connect an image to the request of the plan.",
        )
    return source_of(request, earlier, rule)


def from_text(result: StepResult, plan: Plan, prompt: str) -> Step | None:
    """Return the step of a result as one of the plan that is generated from text.

    Args:
        result: The result whose attempts were not accepted.
        plan: The plan.
        prompt: A prompt for the whole image of the step.

    Returns:
        The step; `None` if the prompt cannot be used.
    """
    if not prompt.strip() or len(in_style(prompt, plan.style)) > MAX_TEXT:
        return None
    step = next(one for one in plan.steps if one.number == result.step.number)
    assert step.prompt, "a step with attempts has a prompt"
    settings = step.settings.model_copy(update={"source": "text", "mask": None, "denoise": None})
    before = Rewritten(prompt=step.prompt, settings=step.settings, draws=draws_of(result))
    return Step(**{**dict(step), "prompt": prompt, "settings": settings, "rewritten": before})
