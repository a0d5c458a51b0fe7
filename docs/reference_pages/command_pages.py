"""The pages of the command line and of its settings, from the commands as typer builds them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args

import typer

from interleave_thinker.cli.settings import settings_of

from .markdown import code, listed, note, page, table, text
from .setting_pages import anchor_of, title_of

PAGES = {
    "command-line.md": (
        "Command line",
        (
            *("demo", "run", "settings", "app", "redraw", "approve", "plan", "judge"),
            *("export", "clips", "put-back", "cast", "prompts"),
            "doctor",
        ),
    ),
    "command-line-data.md": ("Command line: data", ("data",)),
    "command-line-train.md": ("Command line: train", ("train",)),
    "command-line-measure.md": (
        "Command line: evaluate and benchmark",
        ("evaluate", "benchmark"),
    ),
    "command-line-serve.md": ("Command line: serve", ("serve",)),
}
NAMES = {
    "str": "text", "int": "integer", "Path": "path", "float range": "float", "integer range": "integer",
    "int range": "integer",
}  # fmt: skip
EXIT_CODES = """
## Exit codes

- **0**: done. Every generated step was accepted, or the run had no critic.
- **1**: error. A model, file or server cannot be used. Finished work is kept.
- **2**: wrong usage. An option, name or path cannot be used.
- **3**: done, but not everything passed. A step was not accepted (`run`), the critic rejected the image
  (`judge`), nothing was put back (`put-back`), the new critic was not published (`train`), rows match
  a benchmark (`data guard check`), or items failed or remain (`data trajectories`, `benchmark`).
- **4**: the run waits for your decision (`--pause`). Decide with `approve`, then run the same command again.
- **130**: stopped with Ctrl-C. Run the same command again to continue.
"""
INTRODUCTION = """
`interleave-thinker COMMAND --help` prints the same text in the terminal. Two options belong to the
program itself and come before the command: `--version` prints the version, `--debug` shows the full
traceback of an error.

A command has an option for what people change often. Everything else is a setting:
`--set NAME=VALUE`, repeatable, or `NAME: VALUE` in the YAML file of `--config`.
`interleave-thinker settings COMMAND` lists the settings of a command, and
[Settings and recipes](settings-and-recipes.md) all of them.
"""


def pages(root: Path) -> dict[str, str]:
    """Return the pages, one for each group of commands."""
    from interleave_thinker.cli import app

    top: Any = typer.main.get_command(app)
    commands = top.list_commands(None)
    placed = [name for _, names in PAGES.values() for name in names]
    if sorted(placed) != sorted(top.commands):
        raise SystemExit(f"PAGES in {__file__} lack or exceed: {sorted({*placed} ^ {*top.commands})}")
    home = {name: file for file, (_, names) in PAGES.items() for name in names}
    made = {}
    for file, (title, names) in PAGES.items():
        blocks = [f"# {title}", note("the commands themselves")]
        if file == "command-line.md":
            rows = [(f"[`{name}`]({home[name]}#{name})", text(top.commands[name].help)) for name in commands]
            blocks += [INTRODUCTION, table(("Command", "Purpose"), rows), EXIT_CODES]
        for name in names:
            blocks += _command(top.commands[name].load(), name, 2)
        made[file] = page(*blocks)
    return made


def _command(command: Any, path: str, level: int) -> Iterator[str]:
    yield f"{'#' * min(level, 4)} {path}"
    yield from _paragraphs(command.help or "")
    commands = getattr(command, "commands", None)
    options = [one for one in command.params if one.name not in ("help", "set", "config")]
    if options or not commands:
        arguments = [_metavar(one) for one in options if one.param_type_name == "argument"]
        yield f"    interleave-thinker {' '.join([path, *arguments, '[OPTIONS]'])}"
        yield table(("Option", "Value", "Default", "Description"), map(_option, options))
        if (settings := settings_of(command)) is not None:
            links = [
                f"[{title_of(one)}](settings-and-recipes.md#{anchor_of(one)})"
                for one in settings.models.values()
            ]
            yield f"Settings: {', '.join(links)}."
    for name, inner in (commands or {}).items():
        yield from _command(inner, f"{path} {name}", level + 1)


def _paragraphs(help_text: str) -> Iterator[str]:
    for block in re.split(r"\n\s*\n", help_text.replace("\b", "").strip()):
        if block:
            yield text(block)


def _metavar(argument: Any) -> str:
    name = argument.name.upper() + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _option(one: Any) -> tuple[str, ...]:
    names = [*one.opts, *one.secondary_opts] if one.param_type_name == "option" else [one.name.upper()]
    flag = getattr(one, "is_flag", False)
    name = f"`{one.opts[-1]}`, `{one.secondary_opts[-1]}`" if flag and one.secondary_opts else listed(names)
    value = "" if flag else _value(one)
    if getattr(one, "multiple", False) or one.nargs == -1:
        value = f"{value}, repeatable" if value else "repeatable"
    return name, value, "required" if one.required else _default(one), text(one.help or "")


def _value(one: Any) -> str:
    """The type, choices and range of an option. Older versions of typer keep them in a type of click."""
    descriptor = getattr(one, "type_descriptor", None)
    if descriptor is not None:
        kind, low, high = descriptor.annotation, one.min, one.max
        while get_args(kind):
            kind = get_args(kind)[0]
        choices = list(kind) if isinstance(kind, type) and issubclass(kind, Enum) else ()
        name = getattr(kind, "__name__", "")
        name = NAMES.get(name, name)
    else:
        low, high = getattr(one.type, "min", None), getattr(one.type, "max", None)
        choices = getattr(one.type, "choices", ())
        name = NAMES.get(one.type.name, one.type.name)
    if choices:
        return listed(str(getattr(choice, "value", choice)) for choice in choices)
    if low is None and high is None:
        return name
    if high is None:
        return f"{name}, {low:g} or more"
    return f"{name}, up to {high:g}" if low is None else f"{name}, {low:g} to {high:.12g}"


def _default(one: Any) -> str:
    value = one.default
    if getattr(one, "is_flag", False) and not one.secondary_opts:
        return ""
    if (
        value is None
        or callable(value)
        or value == ()
        or value == ""
        or value == []
        or "Sentinel" in repr(type(value))
    ):
        return ""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, Enum):
        value = value.value
    return code(f"{value:g}" if isinstance(value, float) else str(value))
