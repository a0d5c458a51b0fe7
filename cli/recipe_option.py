"""The option `--config`: a recipe's values become the defaults of the command's other options.

Decision: click's own default map does it, so that a recipe's value is converted and checked exactly as if it had been typed,
and what is typed wins. A key that is no option of the command is an error, never ignored.
"""

from __future__ import annotations

from typing import Annotated

import typer

from ..backend.errors import SettingsError

SECTIONS = {"own-critic": "critic-sft"}
"""Commands whose settings stand in the section of another one."""


def _apply(context: typer.Context, value: str | None) -> str | None:
    if value is None or context.resilient_parsing:
        return value
    from ..training.recipe_files import read_recipe

    command = context.info_name or ""
    stage = SECTIONS.get(command, command)
    values = read_recipe(value, stage)
    values.pop(
        "devices", None
    )  # what the recipe is reckoned for; how many there are is the launcher's to say
    known = {parameter.name for parameter in context.command.params} - {"config"}
    for key in values:
        if key not in known:
            raise SettingsError(
                f"Recipe {value!r}: {stage} has no option {key!r}.", f"See {context.command_path} --help."
            )
    context.default_map = {**(context.default_map or {}), **values}
    return value


Config = Annotated[
    str | None,
    typer.Option(
        help="Recipe: paper-8b, one-80gb, one-24gb, tiny, or a YAML file; options given here win over it.",
        callback=_apply,
        is_eager=True,
    ),
]
