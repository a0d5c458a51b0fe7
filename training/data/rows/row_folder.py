"""A folder of rows with their images: which one may be replaced, and how pictures get into it.

Decision: images lie there under their digests, each once, so that rows of several kinds share them and the
folder can be moved.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from ....backend.errors import SettingsError, TrainingError
from ....backend.files.atomic import write_bytes
from ....backend.pictures import Picture

IMAGES = "images"


def check_place(out: Path, ours: Collection[str]) -> None:
    """Raise SettingsError if `out` cannot be replaced by a folder of these names, or holds anything else."""
    if out.name in ("", ".."):
        raise SettingsError(
            f"{str(out)!r} cannot be replaced by a folder.", "Give a new folder as --out, by its own name."
        )
    try:
        found = {entry.name for entry in out.iterdir()} if out.is_dir() else set()
    except OSError as error:
        raise SettingsError(f"{str(out)!r} cannot be used ({error.strerror or error}).") from error
    if out.is_symlink() or (out.exists() and not out.is_dir()) or found - {*ours, IMAGES}:
        raise SettingsError(f"{str(out)!r} holds something else.", "Give another --out.")


def keep_image(picture: Picture, folder: Path) -> str:
    """Write the picture below `folder` unless it is there; returns its path relative to the folder. Several
    processes may do so at once. Raises TrainingError if it cannot be written, which is no row's fault."""
    name = f"{IMAGES}/{picture.digest}.png"
    if not (folder / name).exists():
        write_bytes(folder / name, picture.png(), TrainingError, "Picture", durable=False)
    return name


def only_these(folder: Path, named: Iterable[Sequence[str]]) -> None:
    """Remove the pictures that no row names: of a trajectory that was left out after all, or half-written
    where a worker died. Raises SettingsError if one that a row names is not there, as from a machine that
    wrote elsewhere."""
    wanted = {name for names in named for name in names}
    found = {f"{IMAGES}/{entry.name}" for entry in (folder / IMAGES).iterdir()}
    if missing := wanted - found:
        raise SettingsError(
            f"{len(missing)} pictures were written somewhere else.",
            "With --ray, --out lies on a disk that all machines share.",
        )
    for name in found - wanted:
        (folder / name).unlink()


def check_shared(folder: Path) -> None:
    """Raise SettingsError where a worker does not see the folder that is being made."""
    if not (folder / IMAGES).is_dir():
        raise SettingsError(
            f"{str(folder.parent)!r} is not the same folder on all machines.",
            "With --ray, --out lies on a disk that all of them share.",
        )
