"""Images of the cast that came from a socket, so no file in the input folder has their name."""

from __future__ import annotations

from ...backend.journal.records.run_files import PICTURES
from ...backend.pictures import Picture
from ...backend.types import StepImage


def connected_image(picture: Picture) -> StepImage:
    """Return an image named by its file in a run folder, so that a run's plan can be run again there."""
    return StepImage(name=f"{PICTURES}/{picture.digest}.png", picture=picture)


def is_connected(image: StepImage) -> bool:
    """Return whether an image came from a socket."""
    return image.picture is not None and image == connected_image(image.picture)
