"""Exporters by name. Adding one: a new file with an `export(trajectory, folder)` function (or another
one, named behind a colon), and a line in REGISTRY.

Decision: an exporter is a pure function of a finished (or stopped) trajectory into a folder. It never asks an
agent or a generator anything, so every run that can be read can be exported again, in any form, at any time.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, Protocol

from pydantic import ValidationError

from ..errors import SettingsError
from ..journal.files import first_fault
from ..machine import plugins
from ..registry import Registry
from ..report.export_options import ExportOptions
from ..types import Trajectory

REGISTRY = {
    "page": ".page",
    "markdown": ".markdown",
    "sheet": ".sheet",
    "record": ".record",
    "story": ".story",
    "pdf": ".pdf",
    "comic": ".comic:export_archive",
    "comic-pdf": ".comic:export_pdf",
    "comic-png": ".comic:export_pictures",
    "gif": ".animation:export_gif",
    "webp": ".animation:export_webp",
    "zip": ".archive",
}
EXPORTERS = Registry("export", REGISTRY, __name__, plugins.EXPORTERS, "export")
ANIMATIONS = ("gif", "webp")
"""Exports that also take `seconds` and `attempts`."""

OPTIONS = "options"
"""Parameter of exports that people look at: its fields are options of theirs."""

__all__ = ["ANIMATIONS", "EXPORTERS", "REGISTRY", "Exporter", "export_by_name", "open_exporter", "options_of"]


class Exporter(Protocol):
    """Writes a trajectory into `folder`, making it, and returns the main file. Raises JournalError."""

    def __call__(self, trajectory: Trajectory, folder: Path, **options: Any) -> Path: ...


def open_exporter(name: str) -> Exporter:
    """The exporter of this name; raises SettingsError."""
    return EXPORTERS.load(name)


def options_of(name: str) -> frozenset[str]:
    """Names of the options that this export takes; raises SettingsError."""
    exporter = open_exporter(name)
    taken = frozenset(inspect.signature(exporter).parameters) - {"trajectory", "folder"}
    if _takes_export_options(exporter):
        return (taken - {OPTIONS}) | frozenset(ExportOptions.model_fields)
    return taken


def _takes_export_options(exporter: Exporter) -> bool:
    """Whether it has the parameter `options`; the `**options` of a plug-in are others."""
    taken = inspect.signature(exporter).parameters.get(OPTIONS)
    return taken is not None and taken.kind is not inspect.Parameter.VAR_KEYWORD


def export_by_name(name: str, trajectory: Trajectory, folder: str | Path, **options: Any) -> Path:
    """Write a trajectory in the form of an exporter.

    Args:
        name: Exporter, built in or of an installed plug-in.
        trajectory: A run, finished or not.
        folder: Folder to write into.
        **options: Options of the exporter, see `options_of`.

    Returns:
        The main file.

    Raises:
        SettingsError: There is no such exporter, or an option cannot be used.
        JournalError: The folder cannot be written.
    """
    exporter = open_exporter(name)
    if _takes_export_options(exporter):
        given = {field: options.pop(field) for field in ExportOptions.model_fields if field in options}
        try:
            options[OPTIONS] = ExportOptions(**given)
        except ValidationError as error:
            raise SettingsError(f"Export {name!r}{first_fault(error)}") from error
    return exporter(trajectory, Path(folder), **options)
