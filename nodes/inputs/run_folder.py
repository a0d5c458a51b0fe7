"""Run folders of the host: one per request and seed, in the host's output folder.

The name is derived from the request and the seed. The same request finds its folder again, so a run resumes
after a crash or a cancel, and a changed setting repeats only what it affects. With another seed every image
differs, so that story has its own folder and both can be loaded. A workflow from a stranger cannot choose
another path.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from ...backend.errors import JournalError, SettingsError
from ...backend.files.names import name_fault, slug
from ...backend.journal.journal import Journal
from ...backend.journal.picks import CHOICES
from ...backend.types import Request

PARENT = "interleave-thinker"
RUNS = "interleave_runs"
"""Key of a node's display with the names of its runs, for a browser that has not followed them."""
WAITING = "interleave_waiting"
"""Key of a node's display with what its run waits for (`WaitingShown`), for programs that decide."""
MAX_OLD_NAME = 40

Stamp = tuple[int, int] | None


def run_folder(output: Path, request: Request, seed: int = 0) -> Path:
    """Return the folder of this request and base seed, without creating it.

    A folder from a version whose folder names had no seed is found by the seed in its journal.
    """
    first = _folder_of(output, request)
    seeded = first.with_name(f"{first.name}-seed-{seed}")
    if seeded.is_dir():
        return seeded
    held = _seed_in(first)
    if held == seed or (held is None and seed == 0):
        return first
    return seeded


def planning_folder(output: Path, request: Request, planner: str) -> Path:
    """Return the folder for the parts of an unfinished plan of this request, one per planner identity."""
    asker = hashlib.blake2b(planner.encode(), digest_size=5).hexdigest()
    first = _folder_of(output, request)
    return first.with_name(f"{first.name}-plan-{asker}")


def _seed_in(folder: Path) -> int | None:
    """Return the base seed of the run in a folder, `None` if it cannot be read."""
    try:
        return Journal(folder).record().settings.seed
    except JournalError:
        return None


def _folder_of(output: Path, request: Request) -> Path:
    content = hashlib.blake2b(request.text.encode(), digest_size=5)
    for image in request.images:
        content.update(image.digest.encode())
    parent, ending = output / PARENT, content.hexdigest()
    # Older versions kept only a-z and digits; their folders keep their names.
    old = re.sub(r"[^a-z0-9]+", "-", request.text.lower())[:MAX_OLD_NAME].strip("-")
    old_name, name = (f"{beginning or 'story'}-{ending}" for beginning in (old, slug(request.text)))
    is_there = old_name != name and next(parent.glob(f"{old_name}*"), None) is not None
    return parent / (old_name if is_there else name)


def known_run(output: Path, name: str) -> Path:
    """Return the folder of the run of this name.

    Raises:
        SettingsError: It is not directly in the folder of all runs.
    """
    parent = output / PARENT
    folder = parent / name
    inside = not name_fault(name) and folder.is_dir() and folder.resolve().parent == parent.resolve()
    if not inside:
        raise SettingsError(
            f"The run {name[:100]!r} was not found in {str(parent)!r}.",
            "It may have been deleted: queue it again.",
        )
    return folder


class RunWatch:
    """Detects that the cached result of a node is out of date.

    The host caches a node's result as long as its inputs are equal. `edition` of a node increases by one
    whenever a run of the node was deleted or its choices.json changed, or the latest run was not complete,
    and never otherwise. It never decreases, so an incomplete result is not found again in a cache with
    several results per node. Nodes are identified by their ids, so the host must not share results between
    nodes (`not_idempotent` in the schema).
    """

    def __init__(self) -> None:
        self._seen: dict[str, dict[Path, Stamp]] = {}
        self._editions: dict[str, int] = {}
        self._incomplete: set[str] = set()

    def runs(self, node: str, folder: Path) -> None:
        """Note that the node runs the run in this folder."""
        self._seen.setdefault(node, {})[folder] = _stamp(folder)

    def incomplete(self, node: str) -> None:
        """Note that the node's run is not complete: the next check increases the edition."""
        self._incomplete.add(node)

    def edition(self, node: str) -> int:
        """Return how often a result of the node went out of date, 0 for an unknown node."""
        seen = self._seen.get(node, {})
        deleted = [folder for folder in seen if not folder.is_dir()]
        for folder in deleted:
            del seen[folder]
        changed = {folder: now for folder, before in seen.items() if (now := _stamp(folder)) != before}
        if deleted or changed or node in self._incomplete:
            seen.update(changed)
            self._incomplete.discard(node)
            self._editions[node] = self._editions.get(node, 0) + 1
        return self._editions.get(node, 0)


def _stamp(folder: Path) -> Stamp:
    try:
        status = (folder / CHOICES).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
