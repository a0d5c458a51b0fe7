"""Selects the earlier images that a step with `source: all` is given as references.

The previous image is still the source, so the critic compares what it always compares; the other images are
references. If not all of them fit, the order decides: the story's first image (it shows how the characters
look), then the newer images before the older. The maximum number of images is decided before the run starts
and stored with its settings. So a run that is replayed from its records selects the same images without a
generator.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import SettingsError
from ..generators.protocol import max_reference_images
from ..pictures import Picture
from ..types import MAX_STEP_IMAGES, DrawSettings, Plan, Request, RunSettings, Step, StepResult, StepSettings

ALL = "all"
INSTEAD = "Use source previous, or a generator whose model accepts several images"


def shows_all(step: Step, settings: RunSettings) -> bool:
    """Return whether the step is given all earlier images."""
    return (step.settings.source or settings.source) == ALL


def with_most_images(settings: RunSettings, plan: Plan | None, generator: object) -> RunSettings:
    """Return the settings with the number of images per step, if the run or a step has source `all`.

    Raises:
        SettingsError: The generator's model accepts one image only, or fewer than `most_images`.
    """
    steps = plan.steps if plan else ()
    if settings.source != ALL and all(step.settings.source != ALL for step in steps):
        return settings
    most = min(MAX_STEP_IMAGES, 1 + max_reference_images(generator))
    if most == 1:
        raise SettingsError(
            "Source 'all' passes several images to the model, but this generator's model accepts one image.",
            f"{INSTEAD}: FLUX.2, Qwen-Image-Edit-Plus, images:MODEL@URL.",
        )
    if settings.most_images is not None and settings.most_images > most:
        raise SettingsError(
            f"most_images is {settings.most_images}, but this generator's model accepts {most} images at "
            "most.",
            f"Set most_images to {most} or less.",
        )
    return settings.model_copy(update={"most_images": settings.most_images or most})


def drawn_settings(
    step: Step, request: Request, earlier: Sequence[StepResult], settings: RunSettings
) -> StepSettings:
    """Return the step's settings, with the earlier images as references if its source is `all`."""
    if not shows_all(step, settings):
        return step.settings
    room = (settings.most_images or MAX_STEP_IMAGES) - 1 - (step.settings.reference is not None)
    beside = _beside([*request.images, *(one.image for one in earlier if one.image is not None)])[:room]
    if not beside:
        return step.settings
    return DrawSettings(**dict(step.settings), beside=tuple(beside))


def _beside(shown: Sequence[Picture]) -> list[Picture]:
    """Return the references: all images but the newest, which is edited; the first, then newer before older.

    No image is returned twice.
    """
    if not shown:
        return []
    ordered = [shown[-1], shown[0], *reversed(shown[1:-1])]
    return list({one.digest: one for one in ordered}.values())[1:]
