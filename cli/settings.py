"""Settings of commands, from pydantic models: options, `--set NAME=VALUE` and recipes.

A parameter of a command whose type is a pydantic model represents the settings of this model, each with the
type, range, default and description of its field. A field marked `DIRECT` is an option of the command. All
fields can be set with `--set NAME=VALUE` and in the file of `--config`; `--help=all` lists them.
Only given settings are passed to the model, so its `model_fields_set` tells what the user set.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from ..backend.core.errors import SettingsError, first_fault
from ..training.recipes.recipe import noun, read_recipe
from .removed import removed, removed_name

SECTIONS = {"own-critic": "critic-sft"}
"""Commands that read the recipe section of another command."""
RECIPE, GIVEN = "recipe", "given"
"""Keys of a context's `meta`: settings of its recipe, and the settings that the user set, by name."""
CONTEXT = "context"
"""Parameter of a command for typer's context, which is also added to commands without it."""
SOURCES = ("COMMANDLINE", "DEFAULT_MAP")
KINDS = {"int": "integer", "float": "number", "bool": "true or false", "str": "text", "Path": "path"}
METAVARS = {"int": "N", "float": "X", "str": "TEXT", "Path": "PATH"}
LARGE = 10**6
"""Upper limits from here on are not shown."""


@dataclass(frozen=True)
class Setting:
    """One setting of a command.

    Attributes:
        name: Name in `--set` and recipes, such as `critic.temperature`.
        path: The command's parameter that gets the model, and the names of the field in it.
        info: The field.
        only_set: Whether the command does not give it an option of its own.
    """

    name: str
    path: tuple[str, ...]
    info: FieldInfo
    only_set: bool = False

    @property
    def _extra(self) -> Mapping[str, Any]:
        return self.info.json_schema_extra if isinstance(self.info.json_schema_extra, dict) else {}

    @property
    def parameter(self) -> str:
        """Name of the option, with underscores. The field can set it: `{"option": "rows"}`."""
        return str(self._extra.get("option", self.path[-1]))

    @property
    def option(self) -> str | None:
        """The option, or None if the setting has none of its own."""
        return (
            f"--{self.parameter.replace('_', '-')}"
            if self._extra.get("direct") and not self.only_set
            else None
        )

    @property
    def kind(self) -> str:
        """What a value may be, such as "integer, 1 to 100"."""
        kind, _ = _plain_type(self.info)
        if get_origin(kind) is Literal:
            return " | ".join(str(one) for one in get_args(kind))
        limits = _limits(self.info)
        low, high = limits.get("ge", limits.get("gt")), limits.get("le", limits.get("lt"))
        more = "more than " if "gt" in limits else ""
        name = KINDS.get(getattr(kind, "__name__", ""), "text")
        if high is None or high >= LARGE:
            return name if low is None else f"{name}, {more}{low:g}{'' if more else ' or more'}"
        return f"{name}, at most {high:g}" if low is None else f"{name}, {more}{low:g} to {high:g}"

    @property
    def default(self) -> str:
        """The default, or an empty text if there is none."""
        value = None if self.info.is_required() else self.info.get_default(call_default_factory=True)
        if value is None or value == ():
            return ""
        if isinstance(value, float):
            return f"{value:g}"
        return str(value).lower() if isinstance(value, bool) else str(value)


class Settings:
    """The settings of a command: the fields of its pydantic models, by parameter."""

    def __init__(self, models: Mapping[str, type[BaseModel]], without: Collection[str] = ()) -> None:
        self.models = models
        self.all = [
            replace(one, only_set=one.parameter in without)
            for name, model in models.items()
            for one in _settings_in(model, (name,), _title(model))
        ]
        named = {_key(one.name): one for one in self.all}
        fields: dict[str, list[Setting]] = {}
        for one in self.all:
            for short in {one.path[-1], one.parameter}:
                fields.setdefault(_key(short), []).append(one)
        self._found = {short: ones[0] for short, ones in fields.items() if len(ones) == 1} | named

    def find(self, name: str) -> Setting | None:
        """Return the setting of a name (with `.`, `-` or `_`), or of a field that only one model has."""
        return self._found.get(_key(name))

    def hint(self, name: str) -> str:
        """Return the names that are like an unknown one."""
        near = get_close_matches(_key(name), self._found, 3, 0.6)
        names = list(dict.fromkeys(self._found[one].name for one in near))
        return f"Did you mean {' or '.join(names)}? " if names else ""

    def validated(self, given: Mapping[str, tuple[Setting, Any]]) -> dict[str, BaseModel]:
        """Return the models of these settings, by parameter.

        Args:
            given: Setting and value, by how the user wrote it.

        Raises:
            SettingsError: A value is not valid.
        """
        values: dict[str, dict[str, Any]] = {name: {} for name in self.models}
        labels = {}
        for label, (setting, value) in given.items():
            inner: dict[str, Any] = values
            for part in setting.path[:-1]:
                inner = inner.setdefault(part, {})
            inner[setting.path[-1]] = value
            labels[setting.path] = label, setting
        return {name: _model(model, values[name], name, labels) for name, model in self.models.items()}


def with_settings(command: Callable[..., Any], without: Collection[str] = ()) -> Callable[..., Any]:
    """Return the command with options for its pydantic parameters, `--set` and `--config`.

    Args:
        command: The command.
        without: Names of settings that are not options of this command, but only `--set NAME=VALUE`.

    Raises:
        SettingsError: When the command is called: a name or value is not valid.
    """
    hints = get_type_hints(command, include_extras=True)
    own = inspect.signature(command).parameters
    settings = Settings({name: hint for name, hint in hints.items() if _is_model(hint)}, without)
    direct = {one.parameter: one for one in settings.all if one.option}

    def spelled_out(**values: Any) -> Any:
        context = values[CONTEXT]
        given: dict[str, tuple[Setting, Any]] = {**context.meta.get(RECIPE, {})}
        for name, one in direct.items():
            value, source = values.pop(name), context.get_parameter_source(name)
            if source is not None and source.name in SOURCES:
                given[str(one.option)] = one, value.value if isinstance(value, Enum) else value
        for text in values.pop("set") or ():
            one, value = _assigned(settings, text, context.command_path)
            given[f"--set {one.name}"] = one, value
        context.meta[GIVEN] = {one.name: value for one, value in given.values()}
        for name in {CONTEXT, "config"} - set(own):
            values.pop(name, None)
        return command(**values, **settings.validated(given))

    parameters = [
        one.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name])
        for name, one in own.items()
        if name not in settings.models
    ]
    parameters += _direct_parameters(direct)
    known = {one.name for one in parameters}
    added = {"set": Annotated[list[str] | None, SET], "config": Annotated[str | None, CONFIG]}
    parameters += [_keyword(name, kind, None) for name, kind in added.items() if name not in known]
    if CONTEXT not in known:
        parameters.append(_keyword(CONTEXT, typer.Context, inspect.Parameter.empty))
    spelled_out.__name__, spelled_out.__doc__ = command.__name__, command.__doc__
    spelled_out.__annotations__ = {one.name: one.annotation for one in parameters}
    spelled_out.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    spelled_out.settings = settings  # type: ignore[attr-defined]
    return spelled_out


def settings_of(command: Any) -> Settings | None:
    """Return the settings of a command as typer built it, or None if it has none."""
    return getattr(command.callback, "settings", None)


def instead_of(context: Any, option: str) -> SettingsError | None:
    """Return the error for an option that is a setting of the command, or None if it is not."""
    settings, name = settings_of(context.command), option.lstrip("-")
    if settings is None:
        return None
    found = settings.find(name) or settings.find(name.removeprefix("no-"))
    if found:
        is_switch = _plain_type(found.info)[0] is bool
        form = f"{found.name}={str(settings.find(name) is not None).lower() if is_switch else 'VALUE'}"
    elif any(one.name.startswith(f"{_key(name)}.") for one in settings.all):
        form = f"{_key(name)}.NAME=VALUE"
    else:
        return None
    return SettingsError(
        f"{option} is not an option.",
        f"Use --set {form}. All names: {context.command_path} --help=all",
    )


def unknown(recipe: str, section: str, key: str, settings: Settings | None = None) -> SettingsError:
    """Return the error for a key of a recipe that is not a setting of the section's command."""
    return removed(f"train {section}", f"--{key.replace('_', '-')}") or SettingsError(
        f"{noun(section)} {recipe!r}: {section} does not have a setting {key!r}.",
        f"{settings.hint(key) if settings else ''}All names: --help=all",
    )


def _apply(context: typer.Context, value: str | None) -> str | None:
    """Make the values of a recipe the defaults of the command's options and settings."""
    if value is None or context.resilient_parsing:
        return value
    section = SECTIONS.get(context.info_name or "", context.info_name or "")
    defaults, others = {}, {}
    for key, one in _values(value, section).items():
        place = place_of(context.command, key)
        if place is None:
            raise unknown(value, section, key, settings_of(context.command))
        if isinstance(place, Setting):
            others[f"{noun(section)} {value!r}, {key}"] = place, one
        else:
            defaults[place] = one
    context.default_map = {**(context.default_map or {}), **defaults}
    context.meta[RECIPE] = others
    return value


def _values(recipe: str, section: str) -> dict[str, Any]:
    values = read_recipe(recipe, section)
    # How many devices are used is decided by the launcher.
    values.pop("devices", None)
    return values


def place_of(command: Any, key: str) -> Setting | str | None:
    """Return the option (its name) or the setting that a key of a recipe sets."""
    settings = settings_of(command)
    options = {parameter.name for parameter in command.params} - {"config", "set"}
    found = settings and settings.find(key)
    if found:
        return found.parameter if found.option else found
    return key if key in options else None


SET = typer.Option(
    "--set",
    metavar="NAME=VALUE",
    help="Set one of the other settings: --help=all lists them, --help=WORD searches. Repeatable.",
)
CONFIG = typer.Option(
    metavar="FILE",
    help="YAML file with options and settings as NAME: VALUE, or for `train` the name of a built-in recipe. "
    "The command line overrides it.",
    callback=_apply,
    is_eager=True,
)


def _assigned(settings: Settings, text: str, command: str) -> tuple[Setting, Any]:
    """Return the setting and the value of NAME=VALUE."""
    name, equals, value = (part.strip() for part in text.partition("="))
    found = settings.find(name)
    if not equals or found is None:
        _, _, path = command.partition(" ")
        gone = removed_name("setting", name.removeprefix("engine."))
        if gone := gone or removed(path, f"--{name.replace('_', '-')}"):
            raise gone
        fault = "is not NAME=VALUE" if not equals else f"is not a setting of `{path}`"
        raise SettingsError(
            f"--set {text if not equals else name!r} {fault}.",
            f"{settings.hint(name)}All names: {command} --help=all",
        )
    kind, optional = _plain_type(found.info)
    return found, None if optional and kind is not str and value.lower() == "none" else value


def _settings_in(model: type[BaseModel], path: tuple[str, ...], title: str) -> Iterator[Setting]:
    for field, info in model.model_fields.items():
        kind, _ = _plain_type(info)
        if _is_model(kind):
            yield from _settings_in(kind, (*path, field), field)
            continue
        short = field.removeprefix(f"{title}_")
        yield Setting(field if not title or short == title else f"{title}.{short}", (*path, field), info)


def _title(model: type[BaseModel]) -> str:
    return str(model.model_config.get("title") or "")


def _key(name: str) -> str:
    return re.sub(r"[-.]", "_", name.strip().lower())


def _is_model(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, BaseModel)


def _plain_type(info: FieldInfo) -> tuple[Any, bool]:
    """Return the type of a field without None, and whether it may be None."""
    kind = info.annotation
    members = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    plain = [member for member in members if member is not type(None)]
    return plain[0], len(plain) < len(members)


def _limits(info: FieldInfo) -> dict[str, Any]:
    """Return the limits of a field, by pydantic's names."""
    return {
        name: getattr(mark, name)
        for mark in info.metadata
        for name in ("ge", "gt", "le", "lt")
        if getattr(mark, name, None) is not None
    }


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _direct_parameters(direct: Mapping[str, Setting]) -> Iterator[inspect.Parameter]:
    for name, setting in direct.items():
        kind, optional = _plain_type(setting.info)
        default = setting.info.default
        if get_origin(kind) is Literal:
            choices: Any = Enum(name, {str(value): value for value in get_args(kind)}, type=str)
            kind, default = choices, None if default is None else choices(default)
        flag = str(setting.option)
        # A switch has both forms, so that the command line can override a recipe.
        flags = f"{flag}/--no-{flag[2:]}" if kind is bool else flag
        metavar = METAVARS.get(getattr(kind, "__name__", ""))
        limits = _limits(setting.info)
        option = typer.Option(
            flags, help=setting.info.description, metavar=metavar, min=limits.get("ge"), max=limits.get("le")
        )
        yield _keyword(name, Annotated[Union[kind, None] if optional else kind, option], default)  # noqa: UP007


def _model(
    model: type[BaseModel],
    values: dict[str, Any],
    name: str,
    labels: Mapping[tuple[str, ...], tuple[str, Setting]],
) -> BaseModel:
    try:
        return model(**values)
    except ValidationError as error:
        fault = first_fault(error)
        path = (name, *map(str, fault.loc))
        label, setting = next(
            (labels[path[:length]] for length in range(len(path), 0, -1) if path[:length] in labels),
            ("", None),
        )
        kind = f" Allowed: {setting.kind}." if setting else ""
        raise SettingsError(f"{label or 'Settings'}: {fault.reason}.{kind}") from error
