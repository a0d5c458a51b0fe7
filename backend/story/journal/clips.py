"""The clips of a run folder: `clips/<key>.json` for two images and a prompt, and `clips/<digest>.mp4`.

There is at most one clip per key. A clip whose images or prompt changed is not found any more, but it stays
in the folder and is found again if the change is undone. A movie that no record names was replaced, or its
process was killed before it wrote the record. It is removed when the next clip is stored.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import partial

from pydantic import BaseModel

from ...core.errors import JournalError
from ...core.types.clip import MAX_BYTES, Clip, ClipPair, Movie
from .run_files import Digest, RunFiles

CLIPS = "clips"
MAX_CLIPS = 1_000
"""Maximum number of clips in a folder, with those whose images or prompt changed."""
MAX_ALL_BYTES = 2**31
"""Maximum size of all movies in a folder, as of a story's archive."""
HINT = "Delete it, and make the clip again."
MOVIE_FILE, RECORD_FILE = re.compile(r"[0-9a-f]{40}\.mp4"), re.compile(r"[0-9a-f]{40}\.json")


class _Named(BaseModel):
    """The field of a clip's record that names its movie."""

    movie: Digest


def clips_in(files: RunFiles, pairs: Iterable[ClipPair]) -> tuple[Clip, ...]:
    """Return the clips of these pairs. A clip whose movie was deleted is left out.

    Raises:
        JournalError: A record is damaged.
    """
    found = (_clip(files, pair.key) for pair in pairs)
    return tuple(clip for clip in found if clip is not None)


def keep_clip(files: RunFiles, clip: Clip) -> Clip:
    """Write a clip, which replaces the one of the same images and prompt. Return it with its movie on disk.

    Raises:
        JournalError: It cannot be written, or the folder is full.
    """
    name, data = movie_name(clip.movie.digest), clip.movie.data
    if files.read(CLIPS, name, limit=MAX_BYTES) != data:
        _remove_unnamed(files)
        _check_room(files, len(data))
        files.write(data, CLIPS, name)
    files.write_model(clip, CLIPS, f"{clip.key}.json")
    _remove_unnamed(files)
    return clip.model_copy(update={"movie": _movie(files, clip.movie.digest)})


def movie_name(digest: str) -> str:
    """Return the file name of a movie."""
    return f"{digest}.mp4"


def _clip(files: RunFiles, key: str) -> Clip | None:
    name = f"{key}.json"
    named = files.read_model(_Named, CLIPS, name, hint=HINT)
    if named is None or not files.has(CLIPS, movie_name(named.movie)):
        return None
    clip = files.read_model(Clip, CLIPS, name, hint=HINT, context={"movies": partial(_movie, files)})
    if clip is not None and clip.key != key:
        raise JournalError(
            f"{str(files.folder / CLIPS / name)!r} does not match its name: it is another clip.", HINT
        )
    return clip


def _movie(files: RunFiles, digest: str) -> Movie:
    return Movie.in_file(digest, partial(_read, files, digest))


def _read(files: RunFiles, digest: str) -> bytes:
    shown = str(files.folder / CLIPS / movie_name(digest))
    data = files.read(CLIPS, movie_name(digest), limit=MAX_BYTES)
    if data is None:
        raise JournalError(f"Movie {shown!r} no longer exists.", "Restore it, or make the clip again.")
    if hashlib.blake2b(data, digest_size=20).hexdigest() != digest:
        raise JournalError(f"Movie {shown!r} was changed or damaged: it does not match its digest.", HINT)
    return data


def _check_room(files: RunFiles, more: int) -> None:
    """Check that one more movie of this size may be written."""
    sizes = [files.path(CLIPS, name).stat().st_size for name in _names(files, MOVIE_FILE)]
    if len(sizes) >= MAX_CLIPS or sum(sizes) + more > MAX_ALL_BYTES:
        raise JournalError(
            f"{str(files.folder / CLIPS)!r} is full: {len(sizes)} clips with {sum(sizes) // 2**20} MiB.",
            "Delete clips of images that changed, or make shorter or smaller ones.",
        )


def _remove_unnamed(files: RunFiles) -> None:
    """Remove the movies that no record names. If a record is damaged, all are kept."""
    records = _names(files, RECORD_FILE)
    try:
        named = [files.read_model(_Named, CLIPS, name, hint=HINT) for name in records]
    except JournalError:
        return
    kept = {movie_name(record.movie) for record in named if record is not None}
    for name in _names(files, MOVIE_FILE):
        if name not in kept:
            files.remove(CLIPS, name)


def _names(files: RunFiles, form: re.Pattern[str]) -> list[str]:
    """Return the names of the files in the folder of the clips that have this form."""
    found = files.path(CLIPS).glob("*")
    return [path.name for path in found if form.fullmatch(path.name) and path.is_file()]
