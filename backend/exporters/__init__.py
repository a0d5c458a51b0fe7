"""Exporters by name. Adding one: a new file with an `export(trajectory, folder)` function (or another
one, named behind a colon), and a line in REGISTRY.

Decision: an exporter is a pure function of a finished (or stopped) trajectory into a folder. It never asks an
agent or a generator anything, so every run that can be read can be exported again, in any form, at any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter
from pathlib import Path
from typing import Any, Protocol

from pydantic import ValidationError

from ..errors import JournalError, SettingsError
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
    return _option_names(_option_parameters(name, open_exporter(name)))


def _option_parameters(name: str, exporter: Exporter) -> dict[str, Parameter]:
    """Return the parameters after the trajectory and the folder."""
    return {parameter.name: parameter for parameter in EXPORTERS.parameters(name, exporter)[2:]}


def _option_names(parameters: Mapping[str, Parameter]) -> frozenset[str]:
    named = frozenset(name for name, taken in parameters.items() if taken.kind is not Parameter.VAR_KEYWORD)
    if _takes_export_options(parameters):
        return (named - {OPTIONS}) | frozenset(ExportOptions.model_fields)
    return named


def _takes_export_options(parameters: Mapping[str, Parameter]) -> bool:
    """Whether it has the parameter `options`; the `**options` of a plug-in are others."""
    return OPTIONS in parameters and parameters[OPTIONS].kind is not Parameter.VAR_KEYWORD


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
    parameters = _option_parameters(name, exporter)
    known = _option_names(parameters)
    unknown = sorted(options.keys() - known)
    if unknown and not any(taken.kind is Parameter.VAR_KEYWORD for taken in parameters.values()):
        raise SettingsError(
            f"Export {name!r} takes no option {unknown[0]!r}.",
            f"Known: {', '.join(sorted(known)) or 'none'}.",
        )
    if _takes_export_options(parameters):
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
            "Make room, also for temporary files, or give another folder.",
        ) from error
