"""A story as one file to share: the run's folder in a zip, with the graph that it was made with.

Decision: everything goes into it (plan, every try, every picture at full quality, settings), so that whoever
gets it can load it, export it in any form and go on with it; journal/archive.py says how it is read.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from ..errors import JournalError
from ..journal.archive import WORKFLOW, pack_run
from ..journal.copy import save_trajectory
from ..types import Trajectory

FILE_NAME = "story.zip"


def export(trajectory: Trajectory, folder: Path, metadata: Mapping[str, str] | None = None) -> Path:
    """Write `folder`/story.zip and return its path; `metadata` holds JSON texts, of which the `workflow`
    (else the `prompt`) is put in. Raises JournalError."""
    graph = (metadata or {}).get("workflow") or (metadata or {}).get("prompt")
    more = {WORKFLOW: graph.encode()} if graph else {}
    try:
        with tempfile.TemporaryDirectory(prefix="interleave-story-") as made:
            run = save_trajectory(trajectory, Path(made) / "run")
            return pack_run(run, Path(folder) / FILE_NAME, more)
    except OSError as error:
        raise JournalError(
            f"The story cannot be packed ({error.strerror or error}).", "Make room."
        ) from error
