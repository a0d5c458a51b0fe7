"""The option `--config`: the values of a recipe become the defaults of the command's other options.

They go into click's default map, so a recipe's value is converted and checked like a typed one, and a typed
one overrides it. A key that is not an option of the command is an error.
"""

from __future__ import annotations

from typing import Annotated

import typer

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
    # How many devices are used is decided by the launcher.
    values.pop("devices", None)
    known = {parameter.name for parameter in context.command.params} - {"config"}
    for key in values:
        if key not in known:
            raise unknown(value, stage, key)
    context.default_map = {**(context.default_map or {}), **values}
    return value


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
