"""`interleave-thinker settings`: lists the settings of a command."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import Annotated, Any

import typer

from ...backend.core.errors import SettingsError
from ..lazy_group import LazyGroup
from ..settings import Setting, Settings, settings_of

WIDTH = 100


def command(
    path: Annotated[
        list[str], typer.Argument(metavar="COMMAND", help="Command, such as `run` or `train critic-grpo`.")
    ],
) -> None:
    """List the settings of a command: name, range, default and effect.

    Set them with --set NAME=VALUE, or as NAME: VALUE in the YAML file of --config.
    """
    for line in lines(settings_named(path)):
        typer.echo(line)


def settings_named(path: list[str]) -> Settings:
    """Return the settings of a command.

    Raises:
        SettingsError: There is no such command, or it has no settings.
    """
    command = LazyGroup().get_command(None, path[0])
    found: Any = command and command.load()
    for name in path[1:]:
        found = getattr(found, "commands", {}).get(name)
    settings = None if found is None else settings_of(found)
    if settings is None:
        inner = getattr(found, "commands", {})
        hint = (
            f"Give one of: {', '.join(inner)}."
            if inner
            else "See interleave-thinker --help for all commands."
        )
        raise SettingsError(f"{' '.join(path)!r} is not a command with settings.", hint)
    return settings


def lines(settings: Settings) -> Iterator[str]:
    """Yield the settings as lines, in the order of the classes that define them."""
    for name, model in settings.models.items():
        yield f"{' '.join((model.__doc__ or name).split(chr(10) * 2)[0].split())}"
        for one in settings.all:
            if one.path[0] == name:
                yield from _lines(one)
        yield ""


def _lines(one: Setting) -> Iterator[str]:
    default = f", default {one.default}" if one.default else ""
    option = f", option {one.option}" if one.option else ""
    yield f"  {one.name}: {one.kind}{default}{option}"
    yield from wrap(one.info.description or "", WIDTH, initial_indent="      ", subsequent_indent="      ")
