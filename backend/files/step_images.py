"""Reads the images that the steps and the cast of a plan name, from one folder, before anything is generated.

A plan in use contains the images themselves in addition to their names. Run folders, exported stories and
identities therefore have the pixels even if the files change. A user writes only names. Only files below the
folder of the plan are read: ComfyUI's input folder, or the folder of the plan's file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..cast import CastMember
from ..errors import InterleaveError, SettingsError
from ..pictures import Picture, open_mask
from ..types import Plan, Step, StepImage
from .image_places import ImagePlaces

FOLDER_MARK = " [input]"
"""Suffix that ComfyUI adds to the names of files in its input folder."""


def with_step_images(plan: Plan, folder: Path) -> Plan:
    """Return the plan with all images that its steps and its cast name, read from below `folder`.

    Raises:
        SettingsError: An image is missing, elsewhere or unreadable, or a mask is completely black. The
            message names the step or the member.
    """
    cast = with_cast_images(plan.cast, folder)
    if cast != plan.cast:
        plan = plan.model_copy(update={"cast": cast})
    if all(image.picture for step in plan.steps for image in step.settings.images.values()):
        return plan
    places = ImagePlaces(folder, SettingsError)
    return plan.model_copy(update={"steps": tuple(_with_images(step, places, folder) for step in plan.steps)})


def with_cast_images(cast: Sequence[CastMember], folder: Path) -> tuple[CastMember, ...]:
    """Return the members with all images that they name, read from below `folder`.

    Raises:
        SettingsError: An image is missing, elsewhere or unreadable. The message names the member.
    """
    if all(image.picture for member in cast for image in member.images):
        return tuple(cast)
    places = ImagePlaces(folder, SettingsError)
    return tuple(
        member.model_copy(
            update={
                "images": tuple(
                    image
                    if image.picture
                    else StepImage(
                        name=image.name,
                        picture=_read(f"Cast member {member.name!r}", image.name, places, folder),
                    )
                    for image in member.images
                )
            }
        )
        for member in cast
    )


def image_files(plan: Plan, folder: Path) -> list[Path]:
    """Return the existing files below `folder` that the steps and the cast name, without duplicates.

    Raises:
        SettingsError: A file is elsewhere.
    """
    places = ImagePlaces(folder, SettingsError)
    images = [image for step in plan.steps for image in step.settings.images.values()]
    images += [image for member in plan.cast for image in member.images]
    found = [places.find(_plain(image.name)) for image in images]
    return list(dict.fromkeys(path for path in found if path))


def _with_images(step: Step, places: ImagePlaces, folder: Path) -> Step:
    read = {
        name: StepImage(
            name=image.name,
            picture=_read(f"Step {step.number}, {name}", image.name, places, folder, name == "mask"),
        )
        for name, image in step.settings.images.items()
        if image.picture is None
    }
    if not read:
        return step
    return step.model_copy(update={"settings": step.settings.model_copy(update=read)})


def _read(where: str, name: str, places: ImagePlaces, folder: Path, mask: bool = False) -> Picture:
    try:
        path = places.find(_plain(name))
        if path is None:
            raise SettingsError(
                f"Image {name!r} does not exist in {folder.name!r}.", "Put it there, or change the plan."
            )
        picture = open_mask(path) if mask else Picture.open(path)
    except InterleaveError as error:
        raise SettingsError(f"{where}: {error.message}", error.hint) from error
    if mask and picture.image.getbbox() is None:
        raise SettingsError(
            f"{where}: {name!r} is completely black, so nothing could change.",
            "Paint the area that may change white, or make it transparent.",
        )
    return picture


def _plain(name: str) -> str:
    return name.removesuffix(FOLDER_MARK)
