"""Exporters by name.

To add one, write a module with a function `export(trajectory, folder)` (or name another function after a
colon) and add it to REGISTRY. An exporter is a pure function of a finished or stopped trajectory. It never
calls an agent or a generator, so every readable run can be exported again in any format.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ...core.errors import JournalError, SettingsError, first_fault
from ...core.machine import registry
from ...core.machine.registry import Registry
from ...core.types import Trajectory
from ..report.export_options import ExportOptions

REGISTRY = {
    "page": ".page",
    "markdown": ".markdown",
    "sheet": ".sheet",
    "record": ".record",
    "story": ".story",
    "pdf": ".pdf",
    "book": ".books:export_picture_book",
    "epub": ".books:export_epub",
    "comic": ".comic:export_archive",
    "comic-pdf": ".comic:export_pdf",
    "comic-png": ".comic:export_pictures",
    "gif": ".animation:export_gif",
    "webp": ".animation:export_webp",
    "mp4": ".video",
    "zip": ".story:export_zip",
}
EXPORTERS = Registry("export", REGISTRY, __name__, registry.EXPORTERS, "export")
ANIMATIONS = ("gif", "webp")
"""Exports with the additional options `seconds` and `attempts`."""

OPTIONS = "options"
"""Name of the parameter for `ExportOptions`, whose fields are options of the export."""

__all__ = ["ANIMATIONS", "EXPORTERS", "REGISTRY", "Exporter", "export_by_name", "open_exporter", "options_of"]


Exporter = Callable[..., Path]
"""Writes a trajectory into a folder, which is created if necessary, and returns the main file.

Its arguments are the trajectory (a run, finished or not), the folder and its options. It raises JournalError
if the folder cannot be written.
"""


def open_exporter(name: str) -> Exporter:
    """Return the exporter of a name.

    Raises:
        SettingsError: The name is unknown.
    """
    return EXPORTERS.load(name)


def options_of(name: str) -> frozenset[str]:
    """Return the names of the options of an export.

    Raises:
        SettingsError: The name is unknown.
    """
    return _options(name, open_exporter(name))[0]


def _options(name: str, exporter: Exporter) -> tuple[frozenset[str], bool, bool]:
    """Return the names of an exporter's options, whether it takes any others, and takes `ExportOptions`.

    Options are the parameters after the trajectory and the folder. The `**options` of a plug-in are others.
    """
    parameters = EXPORTERS.parameters(name, exporter)[2:]
    named = {one.name for one in parameters if one.kind is not Parameter.VAR_KEYWORD}
    shared = OPTIONS in named
    if shared:
        named = (named - {OPTIONS}) | set(ExportOptions.model_fields)
    others = any(one.kind is Parameter.VAR_KEYWORD for one in parameters)
    return frozenset(named), others, shared


def export_by_name(name: str, trajectory: Trajectory, folder: str | Path, **options: Any) -> Path:
    """Write a trajectory with an exporter.

    Args:
        name: Exporter, built in or from an installed plug-in.
        trajectory: A run, finished or not.
        folder: Folder to write into.
        **options: Options of the exporter, see `options_of`.

    Returns:
        The main file.

    Raises:
        SettingsError: The name is unknown, or an option cannot be used.
        JournalError: The folder cannot be written.
    """
    exporter = open_exporter(name)
    known, takes_others, shared = _options(name, exporter)
    unknown = sorted(options.keys() - known)
    if unknown and not takes_others:
        raise SettingsError(
            f"Export {name!r} does not accept the option {unknown[0]!r}.",
            f"Known options: {', '.join(sorted(known)) or 'none'}.",
        )
    if shared:
        given = {field: options.pop(field) for field in ExportOptions.model_fields if field in options}
        try:
            options[OPTIONS] = ExportOptions(**given)
        except ValidationError as error:
            raise SettingsError(f"Export {name!r}{first_fault(error)}") from error
    try:
        return exporter(trajectory, Path(folder), **options)
    except OSError as error:
        raise JournalError(
            f"Export {name!r} cannot be written ({error}).",
            "Free disk space, also for temporary files, or give another folder.",
        ) from error
