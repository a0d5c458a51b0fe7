"""Checks of a run before its first step: is every setting of the run and of its steps supported?

An unsupported setting is an error then. Otherwise the user would find the image that ignores it at the end of
the story. A setting without effect is reported instead. The maximum number of images that a step is shown and
the seed rule are decided here too and stored with the run's settings. So a run that is replayed from its
records selects the same images without a generator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ...core.errors import GeneratorError, SettingsError
from ...core.seams.generator import Generator
from ...core.types import (
    MAX_STEP_IMAGES,
    Plan,
    Request,
    RunSettings,
    Step,
    StepLora,
    StepSettings,
    UnusedSetting,
    Verdict,
)
from ...core.types.cast import pictures_of
from ...core.types.roles import AgentLike, CriticLike
from .policy import ALL, checklist_of

BY_EDITING = "Change it in the plan (Edit Plan, or plan.json)."
INSTEAD = "Use source previous, or a generator whose model accepts several images"


def check_source(request: Request, settings: RunSettings) -> None:
    """Raise an error if the source rule needs an image that the request does not have.

    Raises:
        SettingsError: The source is "anchor", and the request has no image.
    """
    if settings.source == "anchor" and not request.images:
        raise SettingsError(
            "source=anchor edits the request's first image in every step, but the request has no image.",
            "Add an image to the request, or use source=first to edit the first generated image.",
        )


def check_steps(plan: Plan, request: Request, generator: Generator) -> None:
    """Check that every setting of every step is supported.

    Images that steps name must be loaded before (files/image_places.py).

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
                f"Step {step.number} edits the image of step {source}, which is not in this story.",
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


def with_seed_rule(settings: RunSettings, generator: Generator) -> RunSettings:
    """Return the settings with a seed for each attempt if the generator does not use seeds.

    Otherwise attempts with the same seed and prompt would be one cached image.
    """
    return settings if generator.repeatable else settings.model_copy(update={"seed_rule": "every attempt"})


def with_most_images(settings: RunSettings, plan: Plan | None, generator: Generator) -> RunSettings:
    """Return the settings with the number of images per step, if a step may be shown several.

    That is if the run or a step has source `all`, or the cast has images.

    Raises:
        SettingsError: The generator's model accepts fewer images than `most_images`, or only one although the
            source is `all`.
    """
    steps = plan.steps if plan else ()
    sources = (settings.source, *(step.settings.source for step in steps))
    if ALL not in sources and not (plan and pictures_of(plan.cast)):
        return settings
    most = min(MAX_STEP_IMAGES, 1 + generator.max_reference_images)
    if ALL in sources and most == 1:
        raise SettingsError(
            "Source 'all' passes several images to the model, but this generator's model accepts one image.",
            f"{INSTEAD}: FLUX.2, Qwen-Image-Edit-Plus, images:MODEL@URL.",
        )
    if ALL in sources and settings.most_images == 1:
        raise SettingsError(
            "Source 'all' passes several images to the model, but most_images is 1.",
            "Set most_images to 2 or more, or use source previous.",
        )
    if settings.most_images is not None and settings.most_images > most:
        raise SettingsError(
            f"most_images is {settings.most_images}, but this generator's model accepts {most} images at "
            "most.",
            f"Set most_images to {most} or less.",
        )
    return settings.model_copy(update={"most_images": settings.most_images or most})


def unused_cast_images(plan: Plan, generator: Generator) -> list[UnusedSetting]:
    """Return the setting that has no effect if the cast has images and the model accepts none of them."""
    return ["cast_images"] if pictures_of(plan.cast) and not generator.max_reference_images else []


def unused_from_start(generator: Generator, agents: Iterable[AgentLike | None]) -> list[UnusedSetting]:
    """Return the settings without effect that are known before anything is generated, without duplicates."""
    found: list[UnusedSetting] = [] if generator.repeatable else ["seed"]
    for agent in agents:
        found += agent.unused_settings if agent else ()
    return list(dict.fromkeys(found))


def unused_checklist(plan: Plan, critic: CriticLike | None, settings: RunSettings) -> list[UnusedSetting]:
    """Return the checklist as unused if a step has one and the critic cannot answer items."""
    if critic is None or critic.checks_items:
        return []
    return ["checklist"] if any(checklist_of(step, plan, settings) for step in plan.drawn_steps) else []


def unused_at(verdict: Verdict | None, settings: RunSettings) -> list[UnusedSetting]:
    """Return the settings that have no effect on this verdict."""
    if settings.accept_at is None or verdict is None or verdict.success is None:
        return []
    return ["accept_at"] if verdict.probability is None else []
