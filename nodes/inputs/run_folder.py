"""Run folders of the host: one per request and seed, in the host's output folder.

A workflow from a stranger cannot choose another path. The rules of their names are in
`backend/output/live/browser_requests.py`.
"""

from __future__ import annotations

from pathlib import Path

from ...backend.core.types import Request
from ...backend.output.live import browser_requests as run_folders
from ...backend.story.journal.choices import CHOICES
from ...backend.story.journal.clips import CLIPS
from ...backend.story.journal.run_files import FOLDER

PARENT = "interleave-thinker"
RUNS = "interleave_runs"
"""Key of a node's display with the names of its runs, for a browser that has not followed them."""

Stamp = tuple[int, ...]


def run_folder(output: Path, request: Request, seed: int = 0) -> Path:
    """Return the folder of this request and base seed, without creating it."""
    return run_folders.run_folder(output / PARENT, request, seed)


def planning_folder(output: Path, request: Request) -> Path:
    """Return the folder for the plans of this request."""
    return run_folders.folder_of(output / PARENT, request) / FOLDER


class RunWatch:
    """Detects that the cached result of a node is out of date.

    The host caches a node's result as long as its inputs are equal. `edition` of a node increases by one
    whenever a run of the node was deleted, its choices.json or its clips changed, or it was not complete,
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
    states = [path.stat() for name in (CHOICES, CLIPS) if (path := folder / name).exists()]
    return tuple(part for state in states for part in (state.st_mtime_ns, state.st_size))
