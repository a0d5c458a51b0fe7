"""Command-line options made from pydantic models, so that each setting is described in one place.

A parameter of a command whose type is a pydantic model becomes one option per field, with the field's type,
range, default and description. The command gets the validated model.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from ...backend.errors import SettingsError
from .panels import panel_of


def with_model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command with one option per field of its pydantic parameters.

    Raises:
        SettingsError: When the command is called: a value is not valid.
    """
    hints = get_type_hints(command, include_extras=True)
    models = {name: hint for name, hint in hints.items() if _is_model(hint)}

    def spelled_out(**values: Any) -> Any:
        for name, model in models.items():
            given = {field: _plain(values.pop(field)) for field in model.model_fields}
            values[name] = _validated(model, given)
        return command(**values)

    parameters = list(_parameters(command, hints, models))
    spelled_out.__name__ = command.__name__
    spelled_out.__doc__ = command.__doc__
    spelled_out.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    spelled_out.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return spelled_out


def typed_options(context: typer.Context) -> set[str]:
    """Return the names of the options that are on the command line."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}


def _parameters(
    command: Callable[..., Any], hints: dict[str, Any], models: dict[str, Any]
) -> Iterator[inspect.Parameter]:
    for name, own in inspect.signature(command).parameters.items():
        if name not in models:
            yield own.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name])
            continue
        for field_name, field in models[name].model_fields.items():
            kind, default = _option_type(field_name, field)
            panel = panel_of(models[name], field_name)
            flags = _flags(_flag(field_name, field), kind)
            option = typer.Option(*flags, help=field.description, rich_help_panel=panel, **_range(field))
            yield inspect.Parameter(
                field_name,
                inspect.Parameter.KEYWORD_ONLY,
                default=default,
                annotation=Annotated[kind, option],
            )


def _is_model(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, BaseModel)


def _option_type(name: str, field: FieldInfo) -> tuple[Any, Any]:
    kind, default = field.annotation, field.default
    members = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    optional = type(None) in members
    (kind,) = [member for member in members if member is not type(None)]
    if get_origin(kind) is Literal:
        choices: Any = Enum(name, {str(value): value for value in get_args(kind)}, type=str)
        kind, default = choices, None if default is None else choices(default)
    return (Union[kind, None] if optional else kind), default  # noqa: UP007 - typer reads this at run time


def _flag(name: str, field: FieldInfo) -> str:
    """Return the option of a field: its name, unless the field sets `json_schema_extra={"option": ...}`."""
    extra = field.json_schema_extra
    named = extra.get("option") if isinstance(extra, dict) else None
    return f"--{named or name.replace('_', '-')}"


def _flags(flag: str, kind: Any) -> tuple[str, ...]:
    # A switch has both forms, so that the command line can override a recipe.
    return (f"{flag}/--no-{flag[2:]}",) if kind is bool else (flag,)


def _range(field: FieldInfo) -> dict[str, Any]:
    bounds: dict[str, Any] = {}
    for limit in field.metadata:
        for theirs, ours in (("ge", "min"), ("le", "max")):
            if getattr(limit, theirs, None) is not None:
                bounds[ours] = getattr(limit, theirs)
    return bounds


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def _validated(model: type[BaseModel], given: dict[str, Any]) -> BaseModel:
    try:
        return model(**given)
    except ValidationError as error:
        fault = error.errors()[0]
        name = str(fault["loc"][0]) if fault["loc"] else ""
        field = model.model_fields.get(name)
        flag = _flag(name, field) if field else "options"
        raise SettingsError(f"{flag}: {fault['msg']}.") from error
