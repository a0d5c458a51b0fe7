"""The pages of the command line and of its settings and recipes, from the commands as typer builds them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import Any, get_args

import typer
from pydantic import BaseModel

from interleave_thinker.backend.core.types import StepSettings
from interleave_thinker.backend.output.report.export_options import ExportOptions
from interleave_thinker.cli.settings import Setting, Settings, settings_of

from .markdown import code, listed, number, page, paragraphs, switch, table, text
from .service_pages import bounds

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
  (`judge`), the new critic was not published (`train`), or items failed or
  remain (`data trajectories`, `benchmark`).
- **4**: the run waits for your decision (`--pause`). Decide with `approve`, then run the same command again.
- **130**: stopped with Ctrl-C. Run the same command again to continue.
"""
INTRODUCTION = """
`interleave-thinker COMMAND --help` prints the same text in the terminal. Two options belong to the
program itself and come before the command: `--version` prints the version, `--debug` shows the full
traceback of an error.

A command has an option for what people change often. Everything else is a setting:
`--set NAME=VALUE`, repeatable, or `NAME: VALUE` in the YAML file of `--config`.
`interleave-thinker COMMAND --help=all` lists them by group, `--help=WORD` searches.
"""
OTHERS: dict[str, tuple[type[BaseModel], str]] = {
    "Step settings": (
        StepSettings,
        'Settings of one step, under `"settings"` in [plan.json](file-formats.md#planjson) or in Edit Plan.',
    ),
    "Exports": (ExportOptions, "Options of `export`, of `Story.export` and of the Export node."),
}
"""Settings that no command has: title, class and what they are for."""
COLUMNS = ("Setting", "Option", "Value", "Default", "Description")
RECIPES = """
## Training recipes

`--config NAME` or `--config FILE.yaml` sets options and settings of a training command. Those on the command
line override the recipe. A recipe has one section for each stage, or is one flat list of names.
The comment on each line of `training/recipes/NAME.yaml` says where the value comes from: the paper, its
published files, an estimate, a measurement, or our choice.

| Recipe | Hardware | Trained weights |
|---|---|---|
| `paper-8b` | eight GPUs of 80 GB, FSDP2 or ZeRO-3, vLLM rollouts | all but vision (`critic-grpo`: all) |
| `one-80gb` | one GPU of 80 GB | LoRA on 8B |
| `one-24gb` | one GPU of 24 GB | QLoRA on 8B (`planner-grpo`: 4B) |
| `tiny` | CPU | all weights of the tiny world's agents |

The tables list every setting that at least one recipe sets. An empty cell means the command's default.
"""


def commands_page() -> str:
    """Return the page of the commands and their exit codes."""
    top = _program()
    rows = [(code(name), text(top.commands[name].help)) for name in top.list_commands(None)]
    table_of_commands = table(("Command", "Purpose"), rows)
    return page("Command line", "the commands themselves", INTRODUCTION, table_of_commands, EXIT_CODES)


def options_page() -> str:
    """Return the page of the options of all commands."""
    top = _program()
    blocks = [
        block for name in top.list_commands(None) for block in _command(top.commands[name].load(), name, 2)
    ]
    return page("Options", "the commands themselves", *blocks)


def _program() -> Any:
    from interleave_thinker.cli import app

    return typer.main.get_command(app)


def _command(command: Any, path: str, level: int) -> Iterator[str]:
    yield f"{'#' * min(level, 4)} {path}"
    yield from paragraphs((command.help or "").replace("\b", ""))
    commands = getattr(command, "commands", None) or {}
    options = [one for one in command.params if one.name not in ("help", "set", "config")]
    if options or not commands:
        arguments = [_metavar(one) for one in options if one.param_type_name == "argument"]
        yield f"    interleave-thinker {' '.join([path, *arguments, '[OPTIONS]'])}"
        yield table(("Option", "Value", "Default", "Description"), map(_option, options))
        if (settings := settings_of(command)) is not None:
            titles = map(title_of, settings.models.values())
            links = [f"[{one}](settings-and-recipes.md#{anchor_of(one)})" for one in titles]
            yield f"Settings: {', '.join(links)}."
    for name, inner in commands.items():
        yield from _command(inner, f"{path} {name}", level + 1)


def _metavar(argument: Any) -> str:
    name = argument.name.upper() + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _option(one: Any) -> tuple[str, ...]:
    flag = getattr(one, "is_flag", False)
    names = [*one.opts, *one.secondary_opts]
    if one.param_type_name != "option":
        names = [one.name.upper()]
    elif flag and one.secondary_opts:
        names = [one.opts[-1], one.secondary_opts[-1]]
    repeatable = "repeatable" if getattr(one, "multiple", False) or one.nargs == -1 else ""
    value = ", ".join(filter(None, ("" if flag else _value(one), repeatable)))
    return listed(names), value, "required" if one.required else _default(one), text(one.help)


def _value(one: Any) -> str:
    """The type, choices and range of an option. Older versions of typer keep them in a type of click."""
    descriptor = getattr(one, "type_descriptor", None)
    if descriptor is not None:
        holder, kind = one, descriptor.annotation
        while get_args(kind):
            kind = get_args(kind)[0]
        choices = list(kind) if isinstance(kind, type) and issubclass(kind, Enum) else ()
        name = getattr(kind, "__name__", "")
    else:
        holder, choices, name = one.type, getattr(one.type, "choices", ()), one.type.name
    if choices:
        return listed(getattr(choice, "value", choice) for choice in choices)
    low, high = getattr(holder, "min", None), getattr(holder, "max", None)
    least, most = None if low is None else f"{low:.15g}", None if high is None else f"{high:.15g}"
    return NAMES.get(name, name) + bounds(least, most)


def _default(one: Any) -> str:
    value = one.default.value if isinstance(one.default, Enum) else one.default
    is_switch = getattr(one, "is_flag", False) and not one.secondary_opts
    is_unset = value in (None, (), "", []) or callable(value) or "Sentinel" in type(value).__name__
    if is_switch or is_unset:
        return ""
    return str(switch(value)) if isinstance(value, bool) else code(number(value))


def settings_page() -> str:
    """Return the page of the settings of all commands, and of what each training recipe sets."""
    about = (
        "Every setting is defined once, as a field with a type, a range, a default and a description. The "
        "command line (`--set NAME=VALUE`), recipes, the Python API, the web app and the nodes read it."
    )
    blocks = [about]
    for model, (commands, settings) in sorted(_models().items(), key=lambda one: title_of(one[0])):
        rows = map(_setting, settings)
        blocks += [f"## {title_of(model)}", f"Of {listed(commands)}.", table(COLUMNS, rows)]
    for title, (model, purpose) in OTHERS.items():
        blocks += [f"## {title}", purpose, table(COLUMNS, map(_setting, Settings({"": model}).all))]
    source = "the settings' definitions and `training/recipes`"
    return page("Settings and recipes", source, *blocks, RECIPES, *_recipes())


def title_of(model: type[BaseModel]) -> str:
    """Return the title of a settings class: the first sentence of its docstring."""
    summary = " ".join((model.__doc__ or "").split("\n\n")[0].split())
    return re.split(r"\.(?: |$)|: | \(", summary)[0]


def anchor_of(title: str) -> str:
    """Return the anchor of a title on its page."""
    return re.sub(r"[^\w -]", "", title).lower().replace(" ", "-")


def _models() -> dict[type[BaseModel], tuple[list[str], list[Setting]]]:
    """Return the settings classes of all commands, with the commands and the settings."""
    found: dict[type[BaseModel], tuple[list[str], list[Setting]]] = {}

    def add(command: Any, path: str) -> None:
        settings = settings_of(command)
        for name, model in settings.models.items() if settings else ():
            own = [one for one in settings.all if one.path[0] == name] if settings else []
            found.setdefault(model, ([], own))[0].append(path)
        for name, inner in getattr(command, "commands", {}).items():
            add(inner, f"{path} {name}")

    top = _program()
    for name in top.list_commands(None):
        add(top.commands[name].load(), name)
    return found


def _setting(one: Setting) -> tuple[str, ...]:
    return code(one.name), code(one.option), text(one.kind), code(one.default), text(one.info.description)


def _recipes() -> Iterator[str]:
    from interleave_thinker.backend.core.errors import SettingsError
    from interleave_thinker.cli.train.command import app
    from interleave_thinker.training.recipes.recipe import STAGES, read_recipe, recipe_names

    def values_of(name: str, stage: str) -> dict[str, Any]:
        try:
            return read_recipe(name, stage)
        except SettingsError:  # it has no section for the stage
            return {}

    commands: Any = typer.main.get_command(app)
    names = sorted(recipe_names(), key=["paper-8b", "one-80gb", "one-24gb", "tiny"].index)
    for stage in STAGES:
        columns = [values_of(name, stage) for name in names]
        settings = settings_of(commands.commands[stage])
        rows = []
        for key in dict.fromkeys(key for column in columns for key in column if key != "devices"):
            found = settings.find(key) if settings else None
            values = (column.get(key) for column in columns)
            shown = (str(value).lower() if isinstance(value, bool) else value for value in values)
            rows.append(
                (
                    code(found.name if found else key),
                    code(found and found.default),
                    *map(code, map(number, shown)),
                )
            )
        yield f"### {stage}"
        yield table(("Setting", "Default", *map(code, names)), rows)
