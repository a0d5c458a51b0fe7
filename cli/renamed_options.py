"""Options of earlier commits, which are refused with the name that they have now."""

from __future__ import annotations

from typing import Any

from ..training.renamed_settings import RENAMED as RENAMED_SETTINGS

RENAMED = {
    "levers": "engine",
    "hold": "constrained_decoding",
    "torn": "shifted",
    "makers": "draw_processes",
    "count": "rows",
    **RENAMED_SETTINGS,
}
"""New names by old ones."""


def new_option(option: str, command: Any) -> str | None:
    """Return the name that an unknown option of this command has now, None if it never was one of it.

    A switch may have become an option with a value: the name of `--no-ordered` has no `--no-` today.
    """
    name = option.removeprefix("--")
    new = RENAMED.get(name.removeprefix("no-").replace("-", "_"), "").replace("_", "-")
    names = [f"--no-{new}", f"--{new}"] if name.startswith("no-") else [f"--{new}"]
    known = {one for parameter in command.params for one in (*parameter.opts, *parameter.secondary_opts)}
    return next((now for now in names if now in known), None)
