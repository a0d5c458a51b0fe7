"""The option `--as` of `run`: the settings of the published system."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import typer

from ....backend.agents.plan_constraints import PlanConstraints
from ....backend.pipeline.published import STORY_SETTINGS, PublishedSystem
from ....backend.types import RunSettings
from ...progress import JsonLines

NAMES: dict[PublishedSystem, str] = {"released": "the released code", "paper": "the paper"}


def chosen(settings: RunSettings | PlanConstraints, typed: Set[str]) -> dict[str, Any]:
    """Return the settings that are on the command line."""
    return {name: getattr(settings, name) for name in type(settings).model_fields if name in typed}


def with_published(
    system: PublishedSystem | None, settings: RunSettings, typed: Set[str], as_json: bool = False
) -> RunSettings:
    """Return the settings as in the published system, and print them and what differs.

    Args:
        system: The published system. None leaves the settings as they are.
        settings: Settings of the command line, or of the resumed run.
        typed: Names of the options that are on the command line. Their values replace the published ones.
        as_json: Print a JSON object.
    """
    if system is None:
        return settings
    published = STORY_SETTINGS[system]
    own = chosen(settings, typed)
    other = {name: value for name, value in own.items() if name in published and value != published[name]}
    if as_json:
        JsonLines().object("published_settings", system=system, settings=published, replaced=other)
    else:
        same = ", ".join(
            _option(name, value)
            for name, value in published.items()
            if name not in other and value != RunSettings.model_fields[name].default
        )
        except_for = ", ".join(
            f"{_option(name, value)} ({system}: {_option(name, published[name])})"
            for name, value in other.items()
        )
        typer.echo(f"Settings as in {NAMES[system]}: {same}.")
        if except_for:
            typer.secho(f"Not as in {NAMES[system]}, as you asked: {except_for}.", fg="yellow")
    return settings.model_copy(update=published | own)


def _option(name: str, value: Any) -> str:
    """Format a setting as its option on the command line."""
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{flag}" if value else f"--no-{flag}"
    if value is None:
        return f"no --{flag}"
    return f'--{flag} "{value}"' if " " in str(value) else f"--{flag} {value}"
