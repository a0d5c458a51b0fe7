"""Exports of a story: written into its run folder by the exporters, and sent as files to save.

A page is always sent as a file to save: opened in the browser, it would run with the rights of the app.
"""

from __future__ import annotations

import tempfile
import threading
import zipfile
from importlib.util import find_spec
from pathlib import Path

from ..backend.core.errors import InterleaveError, JournalError, SettingsError
from ..backend.core.files.atomic import writing
from ..backend.output.exporters import export_by_name
from ..backend.output.feedback.browser_requests import known_run
from ..backend.story.loop.replay import load_trajectory
from .requests import EXPORT_NAMES, AskExport, Exported, ExportName

FILES: dict[ExportName, tuple[str, str]] = {
    "page": ("index.html", "text/html"),
    "pdf": ("story.pdf", "application/pdf"),
    "zip": ("story.zip", "application/zip"),
    "markdown": ("story-markdown.zip", "application/zip"),
    "mp4": ("story.mp4", "video/mp4"),
}
"""File in the run folder, and its media type."""


class ExportUnderWay(InterleaveError):
    """Another export is being written."""


class Exports:
    """Exports the stories in a folder of all runs, one at a time."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._lock = threading.Lock()

    def offered(self) -> list[ExportName]:
        """Return the exports that this installation can write."""
        return [name for name in EXPORT_NAMES if name != "mp4" or find_spec("av") is not None]

    def write(self, asked: AskExport) -> Exported:
        """Export a story, finished or not.

        Raises:
            SettingsError: The run was not found, or a library is missing.
            JournalError: The run cannot be read, or the file not written.
            ExportUnderWay: Another export is being written.
        """
        folder = known_run(self._runs, asked.run)
        if not self._lock.acquire(blocking=False):
            raise ExportUnderWay("Another export is being written.", "Wait until it is finished.")
        try:
            path = self._written(folder, asked.to)
            return Exported(name=path.name, bytes=path.stat().st_size)
        finally:
            self._lock.release()

    def file(self, asked: AskExport) -> Path:
        """Return the path of an exported file.

        Raises:
            SettingsError: The run was not found, or was not exported in this format.
        """
        path = known_run(self._runs, asked.run) / FILES[asked.to][0]
        if path.is_symlink() or not path.is_file():
            raise SettingsError(f"{path.name} of the run {asked.run!r} does not exist.", "Export it first.")
        return path

    def _written(self, folder: Path, name: ExportName) -> Path:
        trajectory = load_trajectory(folder)
        if name != "markdown":
            return export_by_name(name, trajectory, folder)
        path = folder / FILES[name][0]
        with writing(path, JournalError, "Export") as new, tempfile.TemporaryDirectory() as made:
            export_by_name(name, trajectory, made)
            with zipfile.ZipFile(new, "x") as packed:
                for file in sorted(Path(made).rglob("*")):
                    packed.write(file, file.relative_to(made))
        return path
