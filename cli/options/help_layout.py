"""Layout of `--help`: short value names, ranges in the description, the most used options first.

It is applied when a help text is printed, so that parsing and the generated reference see the options
unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .panels import FIRST, ORDER

LARGE = 10**6
"""Upper limits from here on are not shown."""
NAMES = {"int": "N", "float": "X", "str": "TEXT", "Path": "PATH", "bool": ""}


def lay_out(command: Any, before: Callable[[Any], None]) -> None:
    """Arrange the help of a command and of its subcommands when it is printed.

    Args:
        command: Command or group as typer made it.
        before: Called with the command before its help is arranged.
    """
    print_help = command.format_help

    def format_help(context: Any, formatter: Any) -> None:
        before(command)
        _arrange(command, context)
        print_help(context, formatter)

    command.format_help = format_help
    for one in getattr(command, "commands", {}).values():
        lay_out(one, before)


def _arrange(command: Any, context: Any) -> None:
    command.help = _joined(command.help or "")
    command.params.sort(key=_place(command))
    if (help_option := command.get_help_option(context)) is not None:
        help_option.metavar = ""
    for parameter in command.params:
        if parameter.param_type_name == "option":
            _name_value(parameter)
            _show_range(parameter)
            _hide_negative(parameter)


def _joined(text: str) -> str:
    """Return the text with one line per paragraph, so that it wraps at the width of the terminal."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _place(command: Any) -> Callable[[Any], tuple[int, int]]:
    """Return the sort key of the options; equal keys keep their order."""
    by_use = {"planner", "critic"} & {parameter.name for parameter in command.params}

    def key(parameter: Any) -> tuple[int, int]:
        panel = getattr(parameter, "rich_help_panel", None)
        if panel is None:
            used = by_use and parameter.name in FIRST
            return 0, FIRST.index(parameter.name) if used else len(FIRST)
        return 1, ORDER.index(panel) if by_use and panel in ORDER else len(ORDER)

    return key


def _name_value(option: Any) -> None:
    kind = getattr(getattr(option, "type_descriptor", None), "annotation", None)
    kind = next(iter(getattr(kind, "__args__", ())), kind)  # the items of a list
    name = getattr(kind, "__name__", "")
    if option.metavar is None and name in NAMES:
        option.metavar = NAMES[name]


def _show_range(option: Any) -> None:
    least, most = getattr(option, "min", None), getattr(option, "max", None)
    if least is None and most is None:
        return
    option.min = option.max = None
    if most is None or most >= LARGE:
        limits = f"{least:g} or more" if least else ""
    else:
        limits = f"at most {most:g}" if least is None else f"{least:g} to {most:g}"
    if limits and option.help:
        option.help = f"{option.help} ({limits})"


def _hide_negative(option: Any) -> None:
    """Show `--no-...` only where it changes the default."""
    if option.secondary_opts and not option.default:
        option.secondary_opts = []
