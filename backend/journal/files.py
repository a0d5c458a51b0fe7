"""The files of a run's folder: written whole or not at all, read within bounds, never outside the folder.

Decision: every file appears by one rename of a finished temporary file in the same folder, so a process
killed at any moment leaves either the old content or the new one, and at worst a temporary file that the next
run sweeps away.
"""

from __future__ import annotations

import os
import re
import stat
from collections import OrderedDict
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from PIL.Image import Image
from pydantic import BaseModel, ValidationError

from ..errors import JournalError
from ..files import atomic
from ..files.bounded_reader import parse_json, read_bytes_if_any
from ..pictures import MAX_BYTES, Picture

PICTURES = "pictures"
PLAN = "plan.json"
MAX_JSON = 64 * 1024 * 1024
MAX_CHECKED = 10_000
"""Picture files that are remembered as looked at: some hundred bytes each."""
PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")

Model = TypeVar("Model", bound=BaseModel)


class _Checked:
    """Picture files that held the pixels of their digest when this process last looked, as long as nobody
    touched them.

    Looking takes 15 ms for a megapixel, and a run that goes on over a finished journal asks for every one of
    its pictures.
    """

    def __init__(self) -> None:
        self._seen: OrderedDict[Path, tuple[tuple[int, ...], str, tuple[int, int]]] = OrderedDict()

    def note(self, path: Path, picture: Picture) -> None:
        """The file holds this picture."""
        state = self._state(path)
        if state is not None:
            self._seen[path] = state, picture.digest, picture.size
            while len(self._seen) > MAX_CHECKED:
                self._seen.popitem(last=False)

    def size(self, path: Path, digest: str) -> tuple[int, int] | None:
        """The size of the picture with this digest in the file; None if it has to be looked at."""
        state, known, size = self._seen.get(path, ((), "", (0, 0)))
        return size if known == digest and state == self._state(path) else None

    def _state(self, path: Path) -> tuple[int, ...] | None:
        try:
            found = path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


_checked = _Checked()


class RunFiles:
    """Reads and writes the files of one folder, named by their parts below it."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def path(self, *parts: str) -> Path:
        """The path of a file below the folder; raises JournalError if it would leave it (also by a link)."""
        path = self.folder.joinpath(*parts)
        plain = all(PART.fullmatch(part) for part in parts)
        try:
            # Plain names lead out by a link alone, and to look for one costs a tenth of resolving the path.
            linked = os.name == "nt" or any(
                _is_link(self.folder.joinpath(*parts[:at])) for at in range(1, len(parts) + 1)
            )
            # Unlike Path.resolve, realpath takes a link to itself as it is; reading it is then the error.
            inside = plain and (
                not linked or Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.folder))
            )
        except ValueError as error:
            raise JournalError(f"No folder can have the name {str(self.folder)!r} ({error}).") from error
        if not inside:
            raise JournalError(
                f"{'/'.join(parts)!r} leads out of the run's folder {str(self.folder)!r}.",
                "Only files and folders inside a run's folder are read and written; remove the link.",
            )
        return path

    def write(self, data: bytes, *parts: str) -> None:
        """Put `data` there in one step; raises JournalError (disk full, no permission) and then changes
        nothing."""
        try:
            atomic.write_bytes(self.path(*parts), data, JournalError, "The run's file")
        except JournalError as error:
            hint = "What was finished before is kept; make room or give another folder, and run again."
            raise JournalError(error.message, hint) from error

    def read(self, *parts: str, limit: int = MAX_JSON) -> bytes | None:
        """The content, None if there is no such file; raises JournalError if it is larger than `limit`
        bytes."""
        return read_bytes_if_any(self.path(*parts), limit, JournalError, "The run's file")

    def write_model(self, value: BaseModel, *parts: str) -> None:
        """Write a model as indented JSON, for a person may read and edit it."""
        data = value.model_dump_json(indent=2).encode()
        if len(data) > MAX_JSON:
            raise JournalError(
                f"{'/'.join(parts)!r} would be {len(data)} bytes; at most {MAX_JSON} are kept."
            )
        self.write(data + b"\n", *parts)

    def read_model(
        self, model: type[Model], *parts: str, hint: str, context: dict[str, Any] | None = None
    ) -> Model | None:
        """The file as a model, None if there is no such file; raises JournalError naming the first wrong
        field."""
        data = self.read(*parts)
        if data is None:
            return None
        # Counted first, since a model of a hostile text takes a hundred times its bytes.
        try:
            content = parse_json(data, JournalError, f"The run's file {str(self.path(*parts))!r}")
        except JournalError as error:
            raise JournalError(error.message, hint) from error
        try:
            return model.model_validate(content, context=context)
        except ValidationError as error:
            raise JournalError(f"{str(self.path(*parts))!r}{first_fault(error)}", hint) from error

    def write_picture(self, picture: Picture) -> None:
        """Keep the pixels under their digest, once; they need not stay in memory then."""
        parts = (PICTURES, f"{picture.digest}.png")
        if not self.path(*parts).exists():
            self.write(picture.png(), *parts)
            _checked.note(self.path(*parts), picture)
        picture.kept_by(partial(self._read_again, picture.digest))

    def read_picture(self, digest: str) -> Picture | None:
        """The picture with this digest, None if it is not here; raises JournalError if the pixels are other
        ones."""
        read_again = partial(self._read_again, digest)
        size = _checked.size(self.path(PICTURES, f"{digest}.png"), digest)
        if size is not None:
            return Picture.in_file(digest, size, read_again)
        picture = self._read_picture(digest)
        if picture is not None:
            picture.kept_by(read_again)
        return picture

    def _read_again(self, digest: str) -> Image:
        picture = self._read_picture(digest)
        if picture is None:
            raise JournalError(
                f"Picture {digest!r} is no longer in {str(self.folder / PICTURES)!r}.",
                "Put the run's folder back, or run again; what is missing is drawn again.",
            )
        return picture.image

    def _read_picture(self, digest: str) -> Picture | None:
        parts = (PICTURES, f"{digest}.png")
        data = self.read(*parts, limit=MAX_BYTES)
        if data is None:
            return None
        path = str(self.path(*parts))
        picture = Picture.stored(data, f"Picture {path!r}")
        if picture.digest != digest:
            raise JournalError(
                f"Picture {path!r} does not match its digest: it was changed or damaged.",
                "Delete it and run again; it is then drawn again.",
            )
        _checked.note(self.path(*parts), picture)
        return picture

    def remove(self, *parts: str) -> None:
        """Delete the file if it is there; raises JournalError."""
        path = self.path(*parts)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise JournalError(f"{str(path)!r} cannot be removed ({error.strerror or error}).") from error

    def sweep(self, *folders: str) -> None:
        """Remove what a killed process left half-written in the folder and in these sub-folders."""
        atomic.sweep(*(self.folder, *(self.path(name) for name in folders)), files_alone=True)


def _is_link(path: Path) -> bool:
    """Whether a path is a link; raises ValueError for one that no file can have."""
    try:
        return stat.S_ISLNK(os.lstat(path).st_mode)
    except OSError:
        return False


def first_fault(error: ValidationError) -> str:
    """Where and why the first field is wrong, as the end of a sentence about its file."""
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    # The name of a field may be a stranger's.
    place = ".".join(str(part)[:200] for part in fault["loc"])
    message = fault["msg"].removeprefix("Value error, ")
    return f", field {place!r}: {message}." if place else f": {message}."
