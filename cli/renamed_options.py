"""Renamed options: the old name is an error that gives the new one."""

from __future__ import annotations

from typing import Any

from ..training.trainer.renamed_settings import RENAMED as RENAMED_SETTINGS

RENAMED = {
    "levers": "engine",
    "hold": "constrained_decoding",
    "torn": "shifted",
    "makers": "draw_processes",
    "count": "rows",
    **RENAMED_SETTINGS,
}
"""Old name: new name."""


def new_option(option: str, command: Any) -> str | None:
    """Return the new name of an unknown option, or None if the option was not renamed in this command.

    A switch may have become an option with a value: `--no-ordered` is now `--train-sampling-strategy`.
    """
    name = option.removeprefix("--")
    new = RENAMED.get(name.removeprefix("no-").replace("-", "_"), "").replace("_", "-")
    names = [f"--no-{new}", f"--{new}"] if name.startswith("no-") else [f"--{new}"]
    known = {one for parameter in command.params for one in (*parameter.opts, *parameter.secondary_opts)}
    return next((name for name in names if name in known), None)
