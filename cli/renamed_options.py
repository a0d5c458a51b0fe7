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
    """Return today's name of an unknown option, None if this command never had the option.

    A switch may have become an option with a value: `--no-ordered` is `--train-sampling-strategy` today.
    """
    name = option.removeprefix("--")
    new = RENAMED.get(name.removeprefix("no-").replace("-", "_"), "").replace("_", "-")
    names = [f"--no-{new}", f"--{new}"] if name.startswith("no-") else [f"--{new}"]
    known = {one for parameter in command.params for one in (*parameter.opts, *parameter.secondary_opts)}
    return next((now for now in names if now in known), None)
