"""The page of settings and recipes: the settings of all commands, and what each training recipe sets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel

from interleave_thinker.backend.core.types import StepSettings
from interleave_thinker.backend.output.report.export_options import ExportOptions
from interleave_thinker.cli.settings import Setting, Settings, settings_of

from .markdown import code, listed, note, page, table, text

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


def pages(root: Path) -> dict[str, str]:
    """Return the page `settings-and-recipes.md`."""
    blocks = [
        "# Settings and recipes",
        note("the settings' definitions and `training/recipes`"),
        "Every setting is defined once, as a field with a type, a range, a default and a description. The "
        "command line (`--set NAME=VALUE`), recipes, the Python API, the web app and the nodes read it.",
    ]
    for model, (commands, settings) in sorted(_models().items(), key=lambda one: title_of(one[0])):
        rows = [_row(one) for one in settings]
        blocks += [f"## {title_of(model)}", f"Of {listed(commands)}.", table(COLUMNS, rows)]
    for title, (model, about) in OTHERS.items():
        blocks += [f"## {title}", about, table(COLUMNS, map(_row, Settings({"": model}).all))]
    return {"settings-and-recipes.md": page(*blocks, RECIPES, *_recipes())}


def title_of(model: type[BaseModel]) -> str:
    """Return the title of a settings class: the first sentence of its docstring."""
    summary = " ".join((model.__doc__ or "").split("\n\n")[0].split())
    return re.split(r"\.(?: |$)|: | \(", summary)[0]


def anchor_of(model: type[BaseModel]) -> str:
    """Return the anchor of a settings class on the page."""
    return re.sub(r"[^\w -]", "", title_of(model)).lower().replace(" ", "-")


def _models() -> dict[type[BaseModel], tuple[list[str], list[Setting]]]:
    """Return the settings classes of all commands, with the commands and the settings."""
    from interleave_thinker.cli import app

    found: dict[type[BaseModel], tuple[list[str], list[Setting]]] = {}

    def add(command: Any, path: str) -> None:
        settings = settings_of(command)
        for name, model in settings.models.items() if settings else ():
            own = [one for one in settings.all if one.path[0] == name] if settings else []
            found.setdefault(model, ([], own))[0].append(path)
        for name, inner in getattr(command, "commands", {}).items():
            add(inner, f"{path} {name}")

    top: Any = typer.main.get_command(app)
    top.list_commands(None)
    for name, command in top.commands.items():
        add(command.load(), name)
    return found


def _row(one: Setting) -> tuple[str, ...]:
    return (
        code(one.name),
        code(one.option or ""),
        text(one.kind),
        code(one.default),
        text(one.info.description or ""),
    )


def _recipes() -> Iterator[str]:
    from interleave_thinker.cli.train.command import app
    from interleave_thinker.training.recipes.recipe import STAGES, read_recipe, recipe_names, stages_in

    commands: Any = typer.main.get_command(app)
    names = sorted(recipe_names(), key=["paper-8b", "one-80gb", "one-24gb", "tiny"].index)
    for stage in STAGES:
        columns = {name: read_recipe(name, stage) if stage in stages_in(name) else {} for name in names}
        settings = settings_of(commands.commands[stage])
        keys = list(dict.fromkeys(key for column in columns.values() for key in column if key != "devices"))
        rows = []
        for key in keys:
            found = settings.find(key) if settings else None
            values = (_shown(column.get(key)) for column in columns.values())
            rows.append((code(found.name if found else key), code(found.default) if found else "", *values))
        yield f"### {stage}"
        yield table(("Setting", "Default", *(code(name) for name in names)), rows)


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return code(
        str(value).lower()
        if isinstance(value, bool)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )
