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
    """Return the name that an unknown option of this command has now, None if it never was one of it."""
    name = option.removeprefix("--")
    negated = name.startswith("no-")
    new = RENAMED.get(name.removeprefix("no-").replace("-", "_"))
    if new is None:
        return None
    now = f"--{'no-' if negated else ''}{new.replace('_', '-')}"
    return now if any(now in [*one.opts, *one.secondary_opts] for one in command.params) else None
