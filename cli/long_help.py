"""`--help=all` and `--help=WORD`: the help of a command with its settings, which `--help` leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import Any

import typer

from .settings import Setting, Settings, settings_of

WIDTH = 100


def explain(command: Any, path: list[str], word: str) -> None:
    """Print the help of a command with all of its settings, or its options and settings with a word.

    Args:
        command: The command, or a group of commands.
        path: Its name, and the arguments after it, which may begin with the names of subcommands.
        word: "all", or the word.
    """
    while inner := getattr(command, "commands", {}).get(path[1] if len(path) > 1 else ""):
        command, path = inner, [f"{path[0]} {path[1]}", *path[2:]]
    settings = settings_of(command) or Settings({})
    if word == "all":
        typer.echo(command.make_context(path[0], [], resilient_parsing=True).get_help())
        typer.echo("\n" + "\n".join(lines(settings)))
        return
    own = {one.parameter for one in settings.all}
    options = [one for one in command.params if one.name not in own and getattr(one, "help", None)]
    texts = ["\n".join(_entry(one.opts[0], one.help)) for one in options]
    texts += ["\n".join(_lines(one)) for one in settings.all]
    matching = [text for text in texts if word.lower() in text.lower()]
    typer.echo("\n".join(matching) or f"No option or setting of `{path[0]}` has {word!r}.")


def lines(settings: Settings) -> Iterator[str]:
    """Yield the settings as lines, in the order of the classes that define them."""
    for name, model in settings.models.items():
        yield f"{' '.join((model.__doc__ or name).split(chr(10) * 2)[0].split())}"
        for one in settings.all:
            if one.path[0] == name:
                yield from _lines(one)
        yield ""


def _lines(one: Setting) -> list[str]:
    default = f", default {one.default}" if one.default else ""
    option = f", option {one.option}" if one.option else ""
    return _entry(f"{one.name}: {one.kind}{default}{option}", one.info.description or "")


def _entry(title: str, description: str) -> list[str]:
    return [f"  {title}", *wrap(description, WIDTH, initial_indent="      ", subsequent_indent="      ")]
