"""Files of a run folder: written completely or not at all, read with size limits, never outside the folder.

Every file appears by one rename of a finished temporary file in the same folder. So a process that is killed
leaves the old or the new content, and at worst a temporary file that the next run removes.

No file is believed because it exists. Images and movies are named by the digest of their content, and JSON
files contain a checksum, except those that users edit (`EDITED`). A file without one is of an earlier
version. In run.json and story_checks.json, images and the plan are only digests: plan.json is the plan, and
the user may have edited it. Finished parts of a long plan are stored under a key of everything that led to
them, until the plan is complete.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections import OrderedDict
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from PIL.Image import Image
from pydantic import BaseModel, Field, ValidationError

from ...core.errors import JournalError, first_fault
from ...core.files import atomic
from ...core.files.bounded_reader import parse_json, read_bytes_if_any
from ...core.pictures import MAX_BYTES, Picture
from ...core.types import (
    FORMAT_VERSION,
    MAX_CHECKS,
    MAX_IMAGES,
    Identities,
    Plan,
    Request,
    RunSettings,
    Several,
    Spent,
    StoryCheck,
    Text,
    Value,
)
from ...core.types.roles import PartStore
from ...core.types.values import SparseValue

RUN, PLAN, TRAJECTORY = "run.json", "plan.json", "trajectory.json"
ATTEMPTS, VERDICTS, PICTURES = "attempts", "verdicts", "pictures"
EDITED = (PLAN, "choices.json")
CHECKSUM = "checksum"
CHECKED = re.compile(rb'\{\s*"checksum": "([0-9a-f]{40})",')
MAX_JSON = 64 * 1024 * 1024
MAX_CHECKED = 10_000
"""Number of checked image files to remember; each takes some hundred bytes."""
PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")

Model = TypeVar("Model", bound=BaseModel)


Digest = Annotated[str, Field(max_length=64)]


class Key(Value):
    """Everything that made a result; images are given by their digests."""

    @property
    def digest(self) -> str:
        """40 hex digits of BLAKE2b over the class name and the fields."""
        content = json.dumps([type(self).__name__, self.model_dump()], sort_keys=True)
        return hashlib.blake2b(content.encode(), digest_size=20).hexdigest()


class _Header(BaseModel):
    """The fields of a file that are checked before anything else is read."""

    format: Text = ""
    version: int = 0


class _Checked:
    """Image files whose pixels matched their digest when this process checked them, until they change.

    Checking takes 15 ms per megapixel, and a resumed run asks for every image of its journal.
    """

    def __init__(self) -> None:
        self._seen: OrderedDict[Path, tuple[tuple[int, ...], str, tuple[int, int]]] = OrderedDict()

    def note(self, path: Path, picture: Picture) -> None:
        """Remember that the file contains this image."""
        state = self._state(path)
        if state is not None:
            self._seen[path] = state, picture.digest, picture.size
            while len(self._seen) > MAX_CHECKED:
                self._seen.popitem(last=False)

    def size(self, path: Path, digest: str) -> tuple[int, int] | None:
        """Return the size of the image with this digest; `None` if the file has to be checked."""
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
    """Reads and writes the files of one folder, named by their path parts below it."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def path(self, *parts: str) -> Path:
        """Return the path of a file below the folder.

        Raises:
            JournalError: The path leads out of the folder, also by a link.
        """
        path = self.folder.joinpath(*parts)
        plain = all(PART.fullmatch(part) for part in parts)
        try:
            # A plain name leads out only by a link; looking for one takes a tenth of the time of resolving.
            linked = os.name == "nt" or any(
                _is_link(self.folder.joinpath(*parts[:at])) for at in range(1, len(parts) + 1)
            )
            # Unlike Path.resolve, realpath accepts a link to itself; the error then comes from reading it.
            inside = plain and (
                not linked or Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.folder))
            )
        except ValueError as error:
            raise JournalError(
                f"{str(self.folder)!r} is not a valid folder name ({error}).", "Choose another folder."
            ) from error
        if not inside:
            raise JournalError(
                f"{'/'.join(parts)!r} leads out of the run folder {str(self.folder)!r}.",
                "Only files inside the run folder are read and written. Remove the link.",
            )
        return path

    def write(self, data: bytes, *parts: str) -> None:
        """Write a file in one step. If it fails (disk full, no permission), nothing changes.

        Raises:
            JournalError: The file cannot be written.
        """
        try:
            atomic.write_bytes(self.path(*parts), data, JournalError, "The run's file")
        except JournalError as error:
            hint = "All finished work is saved. Free some space or choose another folder, then run again."
            raise JournalError(error.message, hint) from error

    def read(self, *parts: str, limit: int = MAX_JSON) -> bytes | None:
        """Return the content of a file; `None` if it does not exist.

        Raises:
            JournalError: The file is larger than `limit` bytes, or cannot be read.
        """
        return read_bytes_if_any(self.path(*parts), limit, JournalError, "The run's file")

    def has(self, *parts: str) -> bool:
        """Return whether a file exists."""
        return self.path(*parts).is_file()

    def write_model(self, value: BaseModel, *parts: str) -> None:
        """Write a model as indented JSON, so that the user can read and edit it.

        Raises:
            JournalError: The text is longer than `MAX_JSON` bytes, or cannot be written.
        """
        data = value.model_dump_json(indent=2).encode() + b"\n"
        if parts[-1] not in EDITED:
            data = b'{\n  "%s": "%s",%s' % (CHECKSUM.encode(), _checksum(data[1:]), data[1:])
        if len(data) > MAX_JSON:
            raise JournalError(
                f"{'/'.join(parts)!r} would have {len(data)} bytes; the maximum is {MAX_JSON}."
            )
        self.write(data, *parts)

    def read_model(
        self, model: type[Model], *parts: str, hint: str, context: dict[str, Any] | None = None
    ) -> Model | None:
        """Return a file as a model; `None` if it does not exist.

        Args:
            model: Class of the model.
            parts: Path of the file below the folder.
            hint: What the user should do if the file is damaged.
            context: Validation context of pydantic.

        Raises:
            JournalError: The file is damaged. The message names the first invalid field.
        """
        data = self.read(*parts)
        if data is None:
            return None
        # The values are counted first: a model of a hostile text needs a hundred times its size in memory.
        name = str(self.path(*parts))
        try:
            content = parse_json(data, JournalError, f"The run's file {name!r}")
        except JournalError as error:
            raise JournalError(error.message, hint) from error
        if isinstance(content, dict) and content.pop(CHECKSUM, None) is not None:
            checked = CHECKED.match(data)
            if checked is None or checked[1] != _checksum(data[checked.end() :]):
                raise JournalError(
                    f"{name!r} was changed or damaged: it does not match its checksum.",
                    f"{hint} If you changed it yourself, remove its line {CHECKSUM!r}.",
                )
        try:
            return model.model_validate(content, context=context)
        except ValidationError as error:
            raise JournalError(f"{name!r}{first_fault(error)}", hint) from error

    def check_version(self, name: str) -> None:
        """Check that a file, if it exists, is not from a newer version.

        Raises:
            JournalError: It is from a newer version.
        """
        header = self.read_model(_Header, name, hint="The file is damaged. Choose another folder.")
        if header is not None and header.version > FORMAT_VERSION:
            raise JournalError(
                f"{str(self.folder / name)!r} was written by a newer version (format {header.version}; "
                f"this version reads up to {FORMAT_VERSION}).",
                "Update interleave-thinker.",
            )

    def write_picture(self, picture: Picture) -> None:
        """Write an image under its digest, unless it was checked there. Its pixels may then leave RAM."""
        parts = (PICTURES, f"{picture.digest}.png")
        if _checked.size(self.path(*parts), picture.digest) is None:
            self.write(picture.png(), *parts)
            _checked.note(self.path(*parts), picture)
        picture.kept_by(partial(self._read_again, picture.digest))

    def read_picture(self, digest: str) -> Picture | None:
        """Return the image with this digest; `None` if the file does not exist.

        Raises:
            JournalError: The pixels of the file do not match the digest.
        """
        read_again = partial(self._read_again, digest)
        size = _checked.size(self.path(PICTURES, f"{digest}.png"), digest)
        if size is not None:
            return Picture.in_file(digest, size, read_again)
        picture = self._read_picture(digest)
        if picture is not None:
            picture.kept_by(read_again)
        return picture

    def picture(self, digest: str) -> Picture:
        """Return the image with this digest.

        Raises:
            JournalError: The file does not exist, or its pixels do not match the digest.
        """
        picture = self.read_picture(digest)
        if picture is None:
            raise JournalError(
                f"Image {digest!r} is no longer in {str(self.folder / PICTURES)!r}.",
                "Restore the run folder, or run again to generate what is missing.",
            )
        return picture

    def _read_again(self, digest: str) -> Image:
        return (self._read_picture(digest) or self.picture(digest)).image

    def _read_picture(self, digest: str) -> Picture | None:
        parts = (PICTURES, f"{digest}.png")
        data = self.read(*parts, limit=MAX_BYTES)
        if data is None:
            return None
        path = str(self.path(*parts))
        picture = Picture.stored(data, f"Image {path!r}")
        if picture.digest != digest:
            raise JournalError(
                f"Image {path!r} was changed or damaged: it does not match its digest.",
                "Delete it and run again to generate it again.",
            )
        _checked.note(self.path(*parts), picture)
        return picture

    def remove(self, *parts: str) -> None:
        """Delete a file if it exists.

        Raises:
            JournalError: The file cannot be deleted.
        """
        path = self.path(*parts)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise JournalError(
                f"Cannot delete {str(path)!r} ({error.strerror or error}).", "Check its permissions."
            ) from error

    def sweep(self, *folders: str) -> None:
        """Remove the temporary files that a killed process left in the folder and in these sub-folders."""
        atomic.sweep(*(self.folder, *(self.path(name) for name in folders)), files_alone=True)


def _checksum(rest: bytes) -> bytes:
    """Return 40 hex digits of BLAKE2b over a file after its checksum, whatever its line ends are."""
    return hashlib.blake2b(rest.replace(b"\r\n", b"\n"), digest_size=20).hexdigest().encode()


def _is_link(path: Path) -> bool:
    """Return whether a path is a link.

    Raises:
        ValueError: The name is not valid for a file.
    """
    try:
        return stat.S_ISLNK(os.lstat(path).st_mode)
    except OSError:
        return False


FORMAT = "interleave-thinker run"
CHECKS = "story_checks.json"


class Planned(SparseValue):
    """Identifies the plan that a planner wrote, to detect the user's edits of plan.json."""

    omitted = ("spent",)

    key: Digest
    digest: Digest
    spent: Spent = Spent()


class RequestRecord(Value):
    """A request whose images are named by their digests."""

    text: Text
    images: Several[Digest] = Field(default=(), max_length=MAX_IMAGES)

    @property
    def shown(self) -> str:
        """The text as messages quote it, with at most 60 characters."""
        return self.text if len(self.text) <= 60 else f"{self.text[:57]}..."


class RunRecord(Value):
    """The content of run.json."""

    format: Literal["interleave-thinker run"] = FORMAT
    version: int = FORMAT_VERSION
    request: RequestRecord
    settings: RunSettings
    identities: Identities
    planned: Planned | None = None


class StoryChecks(Value):
    """The content of story_checks.json, oldest first."""

    format: Literal["interleave-thinker story checks"] = "interleave-thinker story checks"
    version: Literal[1] = 1
    checks: Several[StoryCheck] = Field(max_length=MAX_CHECKS)


def request_record(request: Request) -> RequestRecord:
    """Return the record of a request."""
    return RequestRecord(text=request.text, images=tuple(image.digest for image in request.images))


def plan_digest(plan: Plan) -> str:
    """Return 40 hex digits of BLAKE2b over a plan as it was planned: before the run rewrote steps of it."""
    return hashlib.blake2b(plan.as_planned.model_dump_json().encode(), digest_size=20).hexdigest()


FOLDER = "planning"
"""Name of the sub-folder in the run folder."""


class QuestionKey(Key):
    """A planner (as in `Identities`) and the digest of its input."""

    planner: Text
    question: Digest


class WrittenPart(Value):
    """A reply that was parsed, or that was cut off so that its steps were requested in halves."""

    key: QuestionKey
    reply: Text


class PlanParts(PartStore):
    """The stored replies, in a folder that is created with the first."""

    def __init__(self, folder: str | Path) -> None:
        self._files = RunFiles(folder)

    def reply(self, planner: str, question: str) -> str | None:
        """Return the stored reply to this input, if there is one.

        Raises:
            JournalError: The file is damaged.
        """
        key = QuestionKey(planner=planner, question=question)
        hint = "Delete it; that part of the plan is then planned again."
        found = self._files.read_model(WrittenPart, f"{key.digest}.json", hint=hint)
        return found.reply if found is not None and found.key == key else None

    def keep(self, planner: str, question: str, reply: str) -> None:
        """Store a reply.

        Raises:
            JournalError: The file cannot be written.
        """
        key = QuestionKey(planner=planner, question=question)
        self._files.write_model(WrittenPart(key=key, reply=reply), f"{key.digest}.json")

    def plan(self, key: Key) -> Plan | None:
        """Return the complete plan with this key, if there is one.

        Raises:
            JournalError: The file is damaged.
        """
        hint = "Delete it; the story is then planned again."
        return self._files.read_model(Plan, f"plan-{key.digest}.json", hint=hint)

    def complete(self, key: Key, plan: Plan) -> None:
        """Store a complete plan, and remove the replies.

        Raises:
            JournalError: A file cannot be written or deleted.
        """
        self._files.write_model(plan, f"plan-{key.digest}.json")
        self.clear()

    def clear(self) -> None:
        """Remove all replies, since the plan is complete.

        Raises:
            JournalError: A file cannot be deleted.
        """
        folder = self._files.folder
        if not folder.is_dir():
            return
        self._files.sweep()
        for path in sorted(folder.glob("[0-9a-f]*.json")):
            self._files.remove(path.name)
        # The folder stays if a plan or other files are there.
        with suppress(OSError):
            folder.rmdir()
