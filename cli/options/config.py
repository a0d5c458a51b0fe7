"""The option `--config`: a recipe's values become the defaults of the command's other options.

Decision: click's own default map does it, so that a recipe's value is converted and checked exactly as if it
had been typed, and what is typed wins. A key that is no option of the command is an error, never ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

SECTIONS = {"own-critic": "critic-sft"}
"""Commands whose settings stand in the section of another one."""


def _apply(context: typer.Context, value: str | None) -> str | None:
    if value is None or context.resilient_parsing:
        return value
    from ...training.recipes.recipe import read_recipe

    command = context.info_name or ""
    stage = SECTIONS.get(command, command)
    values = read_recipe(value, stage)
    values.pop(
        "devices", None
    )  # what the recipe is reckoned for; how many there are is the launcher's to say
    _check_keys(values, [context.command], value, stage)
    context.default_map = {**(context.default_map or {}), **values}
    return value


def check_recipe(context: typer.Context, recipe: str) -> None:
    """Raise SettingsError for a key of any section that no command which reads the section has as an option.
    `context` is that of a command beside them."""
    from ...training.recipes.recipe import read_recipe, stages_in

    assert context.parent is not None and isinstance(context.parent.command, TyperGroup)
    commands = context.parent.command.commands
    for stage in stages_in(recipe):
        readers = [stage, *(name for name, section in SECTIONS.items() if section == stage)]
        values = read_recipe(recipe, stage)
        values.pop("devices", None)
        _check_keys(values, [commands[name] for name in readers], recipe, stage)


def _check_keys(values: dict[str, Any], commands: Sequence[Any], recipe: str, stage: str) -> None:
    from ...training.recipes.recipe import unknown_key

    known = {parameter.name for command in commands for parameter in command.params} - {"config"}
    for key in values:
        if key not in known:
            raise unknown_key(recipe, stage, key, known)


Config = Annotated[
    str | None,
    typer.Option(
        help="Recipe: paper-8b, one-80gb, one-24gb, tiny, or a YAML file; options given here win over it.",
        callback=_apply,
        is_eager=True,
    ),
]
