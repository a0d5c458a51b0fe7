"""The clips of a run folder: `clips/<key>.json` for two images and a prompt, and `clips/<digest>.mp4`.

There is at most one clip per key. A clip whose images or prompt changed is not found any more, but it stays
in the folder and is found again if the change is undone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import partial

from pydantic import BaseModel

from ..clips.clip import Clip, ClipPair
from ..clips.movie import MAX_BYTES, Movie
from ..errors import JournalError
from .files import RunFiles
from .records.calls import Digest

CLIPS = "clips"
MAX_CLIPS = 1_000
"""Maximum number of clips in a folder, with those whose images or prompt changed."""
MAX_ALL_BYTES = 2**31
"""Maximum size of all movies in a folder, as of a story's archive."""
HINT = "Delete it, and make the clip again."


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
    name, record = movie_name(clip.movie.digest), f"{clip.key}.json"
    before = files.read_model(_Named, CLIPS, record, hint=HINT)
    if not files.has(CLIPS, name):
        data = clip.movie.data
        _check_room(files, len(data))
        files.write(data, CLIPS, name)
    files.write_model(clip, CLIPS, record)
    if before is not None and before.movie != clip.movie.digest and before.movie not in _movies(files):
        files.remove(CLIPS, movie_name(before.movie))
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
    sizes = [path.stat().st_size for path in files.path(CLIPS).glob("*.mp4")]
    if len(sizes) >= MAX_CLIPS or sum(sizes) + more > MAX_ALL_BYTES:
        raise JournalError(
            f"{str(files.folder / CLIPS)!r} is full: {len(sizes)} clips with {sum(sizes) // 2**20} MiB.",
            "Delete clips of images that changed, or make shorter or smaller ones.",
        )


def _movies(files: RunFiles) -> set[str]:
    """Return the digests of the movies that the records name."""
    names = [path.name for path in files.path(CLIPS).glob("*.json")]
    records = (files.read_model(_Named, CLIPS, name, hint=HINT) for name in names)
    return {record.movie for record in records if record is not None}
