"""The images that steps of a plan name: read from one folder, once, before anything is drawn.

Decision: a plan that is carried out holds the pictures themselves beside their names, so that a run's folder,
a story in one file and a draw's identity have the pixels, whatever becomes of the file. A person writes names
alone, and only files below the folder that belongs to the plan are read: ComfyUI's input folder, or the one
that the plan's own file lies in.
"""

from __future__ import annotations

from pathlib import Path

from ..errors import InterleaveError, SettingsError
from ..pictures import Picture, open_mask
from ..types import Plan, Step, StepImage
from .image_places import ImagePlaces

FOLDER_MARK = " [input]"
"""What ComfyUI writes behind the names of files in its input folder."""


def with_step_images(plan: Plan, folder: Path) -> Plan:
    """The plan with every image that its steps name, and that is not read yet, read from below `folder`.

    Raises SettingsError, which names the step, for a file that is not there, lies elsewhere or is no image,
    and for a mask that lets nothing change.
    """
    if all(image.picture for step in plan.steps for image in step.settings.images.values()):
        return plan
    places = ImagePlaces(folder, SettingsError)
    return plan.model_copy(update={"steps": tuple(_with_images(step, places, folder) for step in plan.steps)})


def image_files(plan: Plan, folder: Path) -> list[Path]:
    """The files below `folder` that the steps name, each once; those that are not there are left out. Raises
    SettingsError likewise for one that lies elsewhere."""
    places = ImagePlaces(folder, SettingsError)
    images = [image for step in plan.steps for image in step.settings.images.values()]
    found = [places.find(_plain(image.name)) for image in images]
    return list(dict.fromkeys(path for path in found if path))


def _with_images(step: Step, places: ImagePlaces, folder: Path) -> Step:
    read = {
        name: StepImage(name=image.name, picture=_read(step, name, image.name, places, folder))
        for name, image in step.settings.images.items()
        if image.picture is None
    }
    if not read:
        return step
    return step.model_copy(update={"settings": step.settings.model_copy(update=read)})


def _read(step: Step, what: str, name: str, places: ImagePlaces, folder: Path) -> Picture:
    try:
        path = places.find(_plain(name))
        if path is None:
            raise SettingsError(
                f"There is no image {name!r} in {folder.name!r}.", "Put it there, or change the plan."
            )
        picture = open_mask(path) if what == "mask" else Picture.open(path)
    except InterleaveError as error:
        raise SettingsError(f"Step {step.number}, {what}: {error.message}", error.hint) from error
    if what == "mask" and picture.image.getbbox() is None:
        raise SettingsError(
            f"Step {step.number}, mask: {name!r} is black everywhere, so that nothing could change.",
            "Make white, or transparent, what the step may change.",
        )
    return picture


def _plain(name: str) -> str:
    return name.removesuffix(FOLDER_MARK)
