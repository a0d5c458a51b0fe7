"""Selects the images that a step is shown next to its source: images of its cast, and earlier images.

The previous image is still the source, so the critic compares what it always compares; the other images are
references. Images of the cast come first, so that their numbers in the prompt do not depend on earlier
images. A step with `source: all` is then shown the earlier images: the story's first (it shows how the
characters look), then the newer before the older. The maximum number of images is decided before the first
step and stored with the run's settings. So a run that is replayed from its records selects the same images
without a generator.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...cast import cast_text, newest_images, pictures_of
from ...errors import SettingsError
from ...generators.generator import Generator
from ...pictures import Picture
from ...types import (
    MAX_STEP_IMAGES,
    CastShown,
    DrawSettings,
    Plan,
    Request,
    RunSettings,
    Step,
    StepResult,
    StepSettings,
    UnusedSetting,
)

ALL = "all"
INSTEAD = "Use source previous, or a generator whose model accepts several images"


def shows_all(step: Step, settings: RunSettings) -> bool:
    """Return whether the step is given all earlier images."""
    return (step.settings.source or settings.source) == ALL


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


def drawn_settings(
    step: Step,
    plan: Plan,
    request: Request,
    earlier: Sequence[StepResult],
    settings: RunSettings,
    source: Picture | None,
) -> StepSettings:
    """Return the step's settings with the images shown next to its source, and what is said about its cast.

    Args:
        step: The step.
        plan: Its plan, for the cast.
        request: The request.
        earlier: Results of the steps before.
        settings: The run's settings.
        source: Image that the step edits.
    """
    most = settings.most_images or MAX_STEP_IMAGES
    room = max(0, most - 1 - (step.settings.reference is not None))
    members = plan.members_in(step.number)
    shown = newest_images(members, source)[:room]
    beside = [picture for _, picture in shown]
    if shows_all(step, settings):
        others = _beside([*request.images, *(one.image for one in earlier if one.image is not None)])
        beside = [*beside, *(one for one in others if one not in beside)][:room]
    told = cast_text(members, step.facts, step.cast is not None)
    cast = CastShown(text=told, names=tuple(name for name, _ in shown)) if told or shown else None
    if not beside and cast is None:
        return step.settings
    return DrawSettings(**dict(step.settings), beside=tuple(beside), cast=cast)


def _beside(shown: Sequence[Picture]) -> list[Picture]:
    """Return the references: all images but the newest, which is edited; the first, then newer before older.

    No image is returned twice.
    """
    if not shown:
        return []
    ordered = [shown[-1], shown[0], *reversed(shown[1:-1])]
    return list({one.digest: one for one in ordered}.values())[1:]
