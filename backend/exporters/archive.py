"""A story as one file to share: the run folder in a zip, with the graph that made it.

The zip contains everything (plan, all attempts, all images at full quality, settings), so its recipient can
load the story, export it in any format and continue it. Its page shows the story to people without this
program. journal/archive.py describes how it is read.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from ..errors import JournalError
from ..journal.archive import PAGE, WORKFLOW, pack_run
from ..journal.copy import save_trajectory
from ..types import Trajectory
from .page import export as export_page

FILE_NAME = "story.zip"


def export(trajectory: Trajectory, folder: Path, metadata: Mapping[str, str] | None = None) -> Path:
    """Write `folder`/story.zip and return its path.

    Args:
        trajectory: A run, finished or not.
        folder: Folder to write into.
        metadata: JSON texts by name. The `workflow`, or else the `prompt`, is included.

    Raises:
        JournalError: The file cannot be written.
    """
    graph = (metadata or {}).get("workflow") or (metadata or {}).get("prompt")
    more = {WORKFLOW: graph.encode()} if graph else {}
    try:
        with tempfile.TemporaryDirectory(prefix="interleave-story-") as made:
            more[PAGE] = export_page(trajectory, Path(made)).read_bytes()
            run = save_trajectory(trajectory, Path(made) / "run")
            return pack_run(run, Path(folder) / FILE_NAME, more)
    except OSError as error:
        raise JournalError(
            f"Cannot pack the story ({error.strerror or error}).", "Free disk space."
        ) from error
