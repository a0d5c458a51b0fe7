"""Where the images lie that a file from elsewhere names: in its own folder and below an image root, nowhere
else.

Decision: a published file names its images as on the machine that made them, so a path is first read as it
stands, from the file's folder, and then by its end: the base name beside the file, the longest end that
exists below the root. An image root holds thousands of images of one name, so it is never searched; a name
that would stand for two different images is an error and not a guess. No path is followed out of these
folders, neither by `..` nor by a link.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..errors import InterleaveError

MAX_PARTS = 12
"""Parts of a path, from its end, that are looked for below an image root."""
DRIVE = re.compile(r"^(?:[A-Za-z]:|//[^/]+/[^/]+)")


class ImagePlaces:
    """Finds the images that a file in `folder` names: as written from there, by base name in the sub-folders
    `beside` of it ("" is itself), then by the end of the path below `root`. Faults are raised as `kind`."""

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
            raise kind(f"There is no image folder {str(root)!r}.")
        self._beside = beside
        self._kind = kind
        self._found_for: dict[Path, tuple[str, ...]] = {}

    def find(self, written: str) -> Path | None:
        """The file of a path as it was written, by either kind of slash; None if it lies in none of the
        places.

        Raises `kind` for a path that no file can have, a link that leads out, something that is not a regular
        file, and for two paths that only their missing folders tell apart.
        """
        if "\0" in written:
            raise self._kind(f"The image {written!r} has a name that no file can have.")
        parts = _parts(written)
        own = self._own(written, parts)
        for place, inner in self._candidates(own, parts):
            file = self._file(place, inner, written)
            if file is not None:
                self._check_single(file, parts, written)
                return file
        return None

    def _own(self, written: str, parts: tuple[str, ...]) -> tuple[str, ...] | None:
        """The path below the own folder, None if it leads elsewhere."""
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
                        f"The image {written!r} is reached by a link that leads out of {str(place)!r}."
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
        """Two spellings of one path end alike; two images of one name do not."""
        known = self._found_for.setdefault(file, parts)
        shorter = min(len(known), len(parts))
        if known[-shorter:] != parts[-shorter:]:
            raise self._kind(
                f"The images {'/'.join(known)!r} and {written!r} would both be {str(file)!r}.",
                "Put them into folders that tell them apart.",
            )
        if len(parts) > len(known):
            self._found_for[file] = parts


def _resolved(folder: Path, kind: type[InterleaveError]) -> Path:
    try:
        return Path(os.path.realpath(folder))
    except (OSError, ValueError) as error:
        raise kind(f"The folder {str(folder)!r} cannot be looked up ({error}).") from error


def _parts(written: str) -> tuple[str, ...]:
    """The names of a path, without its drive and what leads out of where it begins."""
    plain = DRIVE.sub("", written.replace("\\", "/"))
    parts: list[str] = []
    for part in plain.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return tuple(parts)


def _inside(names: Sequence[str]) -> tuple[str, ...] | None:
    """A relative path without `.` and `..`, None if it leads out. Nothing on the disk is looked at."""
    parts: list[str] = []
    for part in names:
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return tuple(parts)
