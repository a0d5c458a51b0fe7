"""Folder of rows with their images: checks that it may be replaced, and adds images.

Images are named by their digest and stored once, so that rows of several kinds share them and the folder can
be moved.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from ....backend.errors import SettingsError, TrainingError
from ....backend.files.atomic import write_bytes
from ....backend.pictures import Picture

IMAGES = "images"


def check_place(out: Path, ours: Collection[str]) -> None:
    """Raise SettingsError if `out` contains anything but these names, or cannot be replaced by a folder."""
    if out.name in ("", ".."):
        raise SettingsError(
            f"{str(out)!r} cannot be replaced by a folder.",
            "Give a new folder as --out, with a name of its own.",
        )
    try:
        found = {entry.name for entry in out.iterdir()} if out.is_dir() else set()
    except OSError as error:
        raise SettingsError(
            f"{str(out)!r} cannot be used: {error.strerror or error}.", "Give another --out."
        ) from error
    if out.is_symlink() or (out.exists() and not out.is_dir()) or found - {*ours, IMAGES}:
        raise SettingsError(f"{str(out)!r} contains other files.", "Give another --out.")


def keep_image(picture: Picture, folder: Path) -> str:
    """Write the image into `folder` unless it is already there; several processes may do so at once.

    Returns:
        Its path, relative to the folder.

    Raises:
        TrainingError: The image cannot be written.
    """
    name = f"{IMAGES}/{picture.digest}.png"
    if not (folder / name).exists():
        write_bytes(folder / name, picture.png(), TrainingError, "Image", durable=False)
    return name


def only_these(folder: Path, named: Iterable[Sequence[str]]) -> None:
    """Delete images that no row names: of trajectories left out, or half-written by a worker that died.

    Raises:
        SettingsError: An image that a row names is missing, for instance because another machine wrote it
            elsewhere.
    """
    used = {name for names in named for name in names}
    found = {f"{IMAGES}/{entry.name}" for entry in (folder / IMAGES).iterdir()}
    if missing := used - found:
        raise SettingsError(
            f"{len(missing)} images were written to another folder.",
            "With --ray, --out must be on a disk that all machines share.",
        )
    for name in found - used:
        (folder / name).unlink()


def check_shared(folder: Path) -> None:
    """Raise SettingsError if a worker does not see the folder that is being created."""
    if not (folder / IMAGES).is_dir():
        raise SettingsError(
            f"{str(folder.parent)!r} is not the same folder on all machines.",
            "With --ray, --out must be on a disk that all machines share.",
        )
