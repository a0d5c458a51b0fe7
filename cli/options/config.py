"""The option `--config`: the values of a recipe become the defaults of the command's other options.

They go into click's default map, so a recipe's value is converted and checked like a typed one, and a typed
one overrides it. A key that is not an option of the command is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ...backend.errors import SettingsError
from ..removed import removed

SECTIONS = {"own-critic": "critic-sft"}
"""Commands that read the recipe section of another command."""


def _apply(context: typer.Context, value: str | None) -> str | None:
    if value is None or context.resilient_parsing:
        return value
    from ...training.recipes.recipe import read_recipe

    command = context.info_name or ""
    stage = SECTIONS.get(command, command)
    values = read_recipe(value, stage)
    # The recipe's estimate is for this many devices. How many are used is decided by the launcher.
    values.pop("devices", None)
    _check_keys(values, [context.command], value, stage)
    context.default_map = {**(context.default_map or {}), **values}
    return value


def check_recipe(context: typer.Context, recipe: str) -> None:
    """Check that every key of a recipe is an option of a command that reads its section.

    Args:
        context: Context of another command in the same group.
        recipe: Name or file of the recipe.

    Raises:
        SettingsError: A key is not an option of any command that reads the section.
    """
    from ...training.recipes.recipe import read_recipe, stages_in

    assert context.parent is not None and isinstance(context.parent.command, TyperGroup)
    commands = context.parent.command.commands
    for stage in stages_in(recipe):
        readers = [stage, *(name for name, section in SECTIONS.items() if section == stage)]
        values = read_recipe(recipe, stage)
        values.pop("devices", None)
        _check_keys(values, [commands[name] for name in readers], recipe, stage)


def _check_keys(values: dict[str, Any], commands: Sequence[Any], recipe: str, stage: str) -> None:
    known = {parameter.name for command in commands for parameter in command.params} - {"config"}
    for key in values:
        if key not in known:
            raise unknown(recipe, stage, key)


def unknown(recipe: str, stage: str, key: str) -> SettingsError:
    """Return the error for a key of a recipe that is not an option of the stage's command."""
    gone = removed(f"train {stage}", f"--{key.replace('_', '-')}")
    return gone or SettingsError(
        f"Recipe {recipe!r}: {stage} does not have an option {key!r}.",
        f"See `interleave-thinker train {stage} --help` for all options.",
    )


Config = Annotated[
    str | None,
    typer.Option(
        help="Recipe with defaults for the other options: paper-8b, one-80gb, one-24gb, tiny or a YAML "
        "file. Options "
        "on the command line override it; each switch also has a --no-... form.",
        callback=_apply,
        is_eager=True,
    ),
]
