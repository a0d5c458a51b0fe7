"""Run folders in a folder of all runs: one per request and seed.

The name is derived from the request and the seed. The same request finds its folder again, so a run resumes
after a crash or a cancel, and a changed setting repeats only what it affects. With another seed every image
differs, so that story has its own folder and both can be loaded.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from ...errors import JournalError, SettingsError
from ...files.names import name_fault, slug
from ...journal.journal import Journal
from ...types import Request

MAX_OLD_NAME = 40
WAITING = "interleave_waiting"
"""Key of a node's display with what its run waits for (`WaitingShown`), for programs that decide."""


def run_folder(parent: Path, request: Request, seed: int = 0) -> Path:
    """Return the folder of this request and base seed in the folder of all runs, without creating it.

    A folder from a version whose folder names had no seed is found by the seed in its journal.
    """
    first = folder_of(parent, request)
    seeded = first.with_name(f"{first.name}-seed-{seed}")
    if seeded.is_dir():
        return seeded
    held = _seed_in(first)
    if held == seed or (held is None and seed == 0):
        return first
    return seeded


def folder_of(parent: Path, request: Request) -> Path:
    """Return the folder of a request without a seed in its name."""
    content = hashlib.blake2b(request.text.encode(), digest_size=5)
    for image in request.images:
        content.update(image.digest.encode())
    ending = content.hexdigest()
    # Older versions kept only a-z and digits; their folders keep their names.
    old = re.sub(r"[^a-z0-9]+", "-", request.text.lower())[:MAX_OLD_NAME].strip("-")
    old_name, name = (f"{beginning or 'story'}-{ending}" for beginning in (old, slug(request.text)))
    is_there = old_name != name and next(parent.glob(f"{old_name}*"), None) is not None
    return parent / (old_name if is_there else name)


def known_run(parent: Path, name: str) -> Path:
    """Return the folder of the run of this name.

    Raises:
        SettingsError: It is not directly in the folder of all runs.
    """
    folder = parent / name
    inside = not name_fault(name) and folder.is_dir() and folder.resolve().parent == parent.resolve()
    if not inside:
        raise SettingsError(
            f"The run {name[:100]!r} was not found in {str(parent)!r}.",
            "It may have been deleted: run it again.",
        )
    return folder


def _seed_in(folder: Path) -> int | None:
    """Return the base seed of the run in a folder, `None` if it cannot be read."""
    try:
        return Journal(folder).record().settings.seed
    except JournalError:
        return None
