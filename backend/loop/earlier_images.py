"""Which earlier images a step is shown with `source: all`: the rule, and the check that the generator can
show several.

Decision: the step before is edited, as ever, so that the critic compares what it always does; the others are
shown beside it. Not all have room, so the order is by what they tell: the newest says how things stand, the
story's first image how everybody looks, and of the rest the newer says more. How many there are at most is
settled once, before the run is begun, and recorded with its settings: a run that is read from its records
comes to the same images without the generator.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import SettingsError
from ..generators.protocol import max_reference_images
from ..pictures import Picture
from ..types import MAX_STEP_IMAGES, DrawSettings, Plan, Request, RunSettings, Step, StepResult, StepSettings

ALL = "all"
INSTEAD = "Use source previous, or a generator whose model is shown several images"


def shows_all(step: Step, settings: RunSettings) -> bool:
    """Whether the step is shown all earlier images."""
    return (step.settings.source or settings.source) == ALL


def with_most_images(settings: RunSettings, plan: Plan | None, generator: object) -> RunSettings:
    """The settings with the number of images that a model is shown, where the run or a step of the plan has
    the source `all`. Raises SettingsError if the generator's model is shown fewer, or one alone."""
    steps = plan.steps if plan else ()
    if settings.source != ALL and all(step.settings.source != ALL for step in steps):
        return settings
    most = min(MAX_STEP_IMAGES, 1 + max_reference_images(generator))
    if most == 1:
        raise SettingsError(
            "With source all a model is shown several images, and this generator shows its one alone.",
            f"{INSTEAD}: FLUX.2, Qwen-Image-Edit-Plus, images:MODEL@URL.",
        )
    if settings.most_images is not None and settings.most_images > most:
        raise SettingsError(
            f"This generator shows its model {most} images at most, and most_images asks for "
            f"{settings.most_images}.",
            f"Set most_images to {most} or less.",
        )
    return settings.model_copy(update={"most_images": settings.most_images or most})


def drawn_settings(
    step: Step, request: Request, earlier: Sequence[StepResult], settings: RunSettings
) -> StepSettings:
    """The step's settings, with the images that it is shown beside its source where that is `all`."""
    if not shows_all(step, settings):
        return step.settings
    room = (settings.most_images or MAX_STEP_IMAGES) - 1 - (step.settings.reference is not None)
    beside = _beside([*request.images, *(one.image for one in earlier if one.image is not None)])[:room]
    if not beside:
        return step.settings
    return DrawSettings(**dict(step.settings), beside=tuple(beside))


def _beside(shown: Sequence[Picture]) -> list[Picture]:
    """Those beside the newest, which is edited: the first, then the newer before the older; each once."""
    if not shown:
        return []
    ordered = [shown[-1], shown[0], *reversed(shown[1:-1])]
    return list({one.digest: one for one in ordered}.values())[1:]
