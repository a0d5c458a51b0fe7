"""Where a run of the host keeps its journal: one folder a request and seed below the host's output folder.

Decision: the name is made from the request and the seed, not asked for. The same request finds its folder
again, so a run continues after a crash or a cancel, and a changed setting repeats only what it changes; with
another seed every image is another one, so that story has a folder of its own and both can be loaded. Nothing
in a workflow from a stranger can lead the path anywhere else.
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
"""Under which a node's display names the runs that it shows, for a browser that has not followed them."""
MAX_OLD_NAME = 40

Stamp = tuple[int, int] | None


def run_folder(output: Path, request: Request, seed: int = 0) -> Path:
    """The folder of this request's runs with this base seed; not created. One that was made when folders had
    no seed in their names is found by the seed in it."""
    first = _folder_of(output, request)
    seeded = first.with_name(f"{first.name}-seed-{seed}")
    if seeded.is_dir():
        return seeded
    held = _seed_in(first)
    if held == seed or (held is None and seed == 0):
        return first
    return seeded


def planning_folder(output: Path, request: Request, planner: str) -> Path:
    """Where the parts of this request's plan are until it is whole, one folder a planner (its identity)."""
    asker = hashlib.blake2b(planner.encode(), digest_size=5).hexdigest()
    first = _folder_of(output, request)
    return first.with_name(f"{first.name}-plan-{asker}")


def _seed_in(folder: Path) -> int | None:
    """Base seed of the run in a folder, None if there is none that can be read."""
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
    """The folder of the run of this name; raises SettingsError unless it is one directly below the runs'
    folder."""
    parent = output / PARENT
    folder = parent / name
    inside = not name_fault(name) and folder.is_dir() and folder.resolve().parent == parent.resolve()
    if not inside:
        raise SettingsError(f"There is no run {name[:100]!r} in {str(parent)!r}.")
    return folder


class RunWatch:
    """Notices when the cached result of a node is out of date: by a user's choice, because its run is not
    complete, or because the run's folder was deleted.

    The host keeps a node's result as long as its inputs are the same, and none of these is one. `edition` of
    a node rises by one whenever a run that the node has carried out was deleted or its choices.json changed
    since, or the latest run was not complete, and never otherwise. It never falls, so an incomplete result is
    not found again in a cache that keeps several results of a node. Nodes are told apart by their ids, so the
    host must not give the result of one to another (`not_idempotent` in the node's schema).
    """

    def __init__(self) -> None:
        self._seen: dict[str, dict[Path, Stamp]] = {}
        self._editions: dict[str, int] = {}
        self._incomplete: set[str] = set()

    def runs(self, node: str, folder: Path) -> None:
        """The node is about to carry out the run in this folder."""
        self._seen.setdefault(node, {})[folder] = _stamp(folder)

    def incomplete(self, node: str) -> None:
        """The node has carried out a run that is not complete: the next check makes another edition."""
        self._incomplete.add(node)

    def edition(self, node: str) -> int:
        """Number of times that a result of the node went out of date, 0 for an unknown node."""
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
