"""Resolves image paths in untrusted files, only inside the file's own folder and below an image root.

A published file contains the paths of the machine that made it. A path is first tried as written, relative to
the file's folder. Then the base name is tried next to the file, and the longest path ending that exists below
the root. An image root contains thousands of images of the same name, so it is never searched. A name that
would refer to two different images is an error. No path leads out of these folders, neither by `..` nor by a
link.

The images that the steps and the cast of a plan name are read before anything is generated, from below the
folder of the plan. A plan in use contains the images themselves in addition to their names. Run folders,
exported stories and identities therefore have the pixels even if the files change. A user writes only names.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..errors import InterleaveError, SettingsError
from ..pictures import Picture, open_mask
from ..types import Plan, Step, StepImage
from ..types.cast import CastMember

MAX_PARTS = 12
"""Maximum number of path parts, from the end, that are looked up below an image root."""
DRIVE = re.compile(r"^(?:[A-Za-z]:|//[^/]+/[^/]+)")


class ImagePlaces:
    """Finds the images that a file in `folder` refers to.

    Tried in this order: the path as written, its base name in the subfolders `beside` of the folder ("" is
    the folder itself), and its endings below `root`. Errors have the class `kind`.
    """

    def __init__(
        self,
        folder: Path,
        kind: type[InterleaveError],
        root: Path | None = None,
        beside: Sequence[str] = (),
    ) -> None:
        self._given = Path(os.path.abspath(folder))
        self._folder = _resolved(folder, kind)
        self._root = None if root is None else _resolved(root, kind)
        if self._root is not None and not self._root.is_dir():
            raise kind(f"The image folder {str(root)!r} does not exist.")
        self._beside = beside
        self._kind = kind
        self._found_for: dict[Path, tuple[str, ...]] = {}

    def find(self, written: str) -> Path | None:
        """Return the file of a path with either kind of slash, or None if it is in none of the places.

        Raises:
            InterleaveError: Of class `kind`: the path is invalid, a link leads out of the folder, the path is
                not a regular file, or two different paths would resolve to one file.
        """
        if "\0" in written:
            raise self._kind(f"The image {written!r} has an invalid name.")
        parts = _parts(written)
        own = self._own(written, parts)
        for place, inner in self._candidates(own, parts):
            file = self._file(place, inner, written)
            if file is not None:
                self._check_single(file, parts, written)
                return file
        return None

    def _own(self, written: str, parts: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return the path relative to the file's folder, or None if it leads elsewhere."""
        plain = written.replace("\\", "/")
        for folder in (self._given, self._folder):
            if plain.startswith(f"{folder.as_posix()}/"):
                return _inside(plain[len(folder.as_posix()) + 1 :].split("/"))
        if plain.startswith("/") or DRIVE.match(plain):
            return None
        return _inside(plain.split("/"))

    def _candidates(
        self, own: tuple[str, ...] | None, parts: tuple[str, ...]
    ) -> Iterator[tuple[Path, tuple[str, ...]]]:
        if own:
            yield self._folder, own
        if not parts:
            return
        for name in self._beside:
            yield self._folder, (*filter(None, [name]), parts[-1])
        if self._root is not None:
            for length in range(min(len(parts), MAX_PARTS), 0, -1):
                yield self._root, parts[-length:]

    def _file(self, place: Path, inner: tuple[str, ...], written: str) -> Path | None:
        file = place.joinpath(*inner)
        try:
            state = os.lstat(file)
            real = Path(os.path.realpath(file, strict=True))
            if real != file:
                if not real.is_relative_to(place):
                    raise self._kind(
                        f"The image {written!r} is behind a link that leads out of {str(place)!r}."
                    )
                state = os.stat(real)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise self._kind(f"The image {written[:200]!r} cannot be looked up ({reason}).") from error
        if not stat.S_ISREG(state.st_mode):
            raise self._kind(f"The image {written!r} is not a file.")
        return file

    def _check_single(self, file: Path, parts: tuple[str, ...], written: str) -> None:
        """Check that two paths for one file are the same path, and not two images of one name."""
        known = self._found_for.setdefault(file, parts)
        shorter = min(len(known), len(parts))
        if known[-shorter:] != parts[-shorter:]:
            raise self._kind(
                f"The images {'/'.join(known)!r} and {written!r} would both resolve to {str(file)!r}.",
                "Put them into different folders.",
            )
        if len(parts) > len(known):
            self._found_for[file] = parts


def _resolved(folder: Path, kind: type[InterleaveError]) -> Path:
    try:
        return Path(os.path.realpath(folder))
    except (OSError, ValueError) as error:
        raise kind(f"The folder {str(folder)!r} cannot be looked up ({error}).") from error


def _parts(written: str) -> tuple[str, ...]:
    """Return the names of a path, without its drive and without parts that lead out of its start."""
    plain = DRIVE.sub("", written.replace("\\", "/"))
    parts: list[str] = []
    for part in plain.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return tuple(parts)


def _inside(names: Sequence[str]) -> tuple[str, ...] | None:
    """Return a relative path without `.` and `..`, or None if it leads out. The disk is not accessed."""
    parts: list[str] = []
    for part in names:
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return tuple(parts)


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
