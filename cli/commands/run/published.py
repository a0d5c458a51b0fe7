"""The option `--as` of `run`: the settings of the published system."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, TypeVar

import typer
from pydantic import BaseModel

from ....backend.agents.plan_constraints import PlanConstraints
from ....backend.generators import GENERATORS
from ....backend.pipeline.as_published import REPLY_SETTINGS, SIZES, STORY_SETTINGS, PublishedSystem
from ....backend.types import RunSettings
from ...options.model_options import NONE, CriticOptions, GeneratorOptions, PlannerOptions
from ...progress import JsonLines

Model = TypeVar("Model", bound=BaseModel)
NAMES: dict[PublishedSystem, str] = {"released": "the released code", "paper": "the paper"}


def chosen(settings: RunSettings | PlanConstraints, typed: Set[str]) -> dict[str, Any]:
    """Return the settings that are on the command line."""
    return {name: getattr(settings, name) for name in type(settings).model_fields if name in typed}


def with_published(
    system: PublishedSystem | None, settings: RunSettings, typed: Set[str], as_json: bool = False
) -> RunSettings:
    """Return the settings as in the published system, and print them and what differs.

    Args:
        system: The published system. None leaves the settings as they are.
        settings: Settings of the command line, or of the resumed run.
        typed: Names of the options that are on the command line. Their values replace the published ones.
        as_json: Print a JSON object.
    """
    if system is None:
        return settings
    published = STORY_SETTINGS[system]
    own = chosen(settings, typed)
    other = {name: value for name, value in own.items() if name in published and value != published[name]}
    if as_json:
        JsonLines().object("published_settings", system=system, settings=published, replaced=other)
    else:
        same = ", ".join(
            _option(name, value)
            for name, value in published.items()
            if name not in other and value != RunSettings.model_fields[name].default
        )
        except_for = ", ".join(
            f"{_option(name, value)} ({system}: {_option(name, published[name])})"
            for name, value in other.items()
        )
        typer.echo(f"Settings as in {NAMES[system]}: {same}.")
        if except_for:
            typer.secho(f"Not as in {NAMES[system]}, as you asked: {except_for}.", fg="yellow")
    return settings.model_copy(update=published | own)


def with_published_models(
    system: PublishedSystem | None,
    planning: PlannerOptions,
    judging: CriticOptions,
    drawing: GeneratorOptions,
    as_json: bool = False,
) -> tuple[PlannerOptions, CriticOptions, GeneratorOptions]:
    """Return the options of the models with the published decoding and size where none is set; print them.

    A generator whose size cannot be set keeps its size, which `not_as_published` reports.
    """
    if system is None:
        return planning, judging, drawing
    added: dict[str, Any] = {}
    replies = REPLY_SETTINGS[system]
    plans = _missing(planning, {f"planner_{name}": one for name, one in replies.items()}, added)
    judges = _missing(judging, {f"critic_{name}": one for name, one in replies.items()}, added)
    has_size = drawing.generator != NONE and "size" in GENERATORS.option_names(drawing.generator)
    draws = _missing(drawing, {"size": SIZES[system]} if has_size else {}, added)
    if added and as_json:
        JsonLines().object("published_models", system=system, settings=added)
    elif added:
        typer.echo(f"Models as in {NAMES[system]}: {', '.join(_option(*one) for one in added.items())}.")
    return plans, judges, draws


def _missing(options: Model, published: dict[str, Any], added: dict[str, Any]) -> Model:
    """Return the options with the published values of those that are not set, and add these to `added`."""
    unset = {name: value for name, value in published.items() if getattr(options, name) is None}
    unset = {name: value for name, value in unset.items() if value is not None}
    added |= unset
    return options.model_copy(update=unset)


def _option(name: str, value: Any) -> str:
    """Format a setting as its option on the command line."""
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{flag}" if value else f"--no-{flag}"
    if value is None:
        return f"no --{flag}"
    return f'--{flag} "{value}"' if " " in str(value) else f"--{flag} {value}"
