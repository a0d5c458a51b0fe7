"""One way to turn a name from the command line, a node or a config into an object.

Decision: registries map a name to a module of this package, imported only when asked for, so that listing
backends costs nothing and a missing optional library is an error of the one backend that needs it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from .errors import SettingsError


def open_by_spec(kind: str, registry: Mapping[str, str], spec: str, **options: object) -> Any:
    """Call `open(argument, **options)` of the module behind `NAME[:ARGUMENT]`; raises SettingsError.

    Options that the module's `open` does not take are an error too, unless they are None (not set by the
    user).
    """
    name, argument = split_spec(spec)
    accepted = option_names(kind, registry, spec)
    given = {key: value for key, value in options.items() if value is not None}
    for key in given:
        if key not in accepted:
            raise SettingsError(f"{kind.capitalize()} {name!r} takes no option {key!r}.")
    return _module(kind, registry, name).open(argument, **given)


def option_names(kind: str, registry: Mapping[str, str], spec: str) -> frozenset[str]:
    """Names of the options that `open` behind `NAME[:ARGUMENT]` takes; raises SettingsError. A module may
    give those of `**options` as fields of a model named OPTIONS."""
    module = _module(kind, registry, split_spec(spec)[0])
    parameters = list(inspect.signature(module.open).parameters.values())[1:]
    named = {parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD}
    return frozenset(named.union(module.OPTIONS.model_fields if hasattr(module, "OPTIONS") else ()))


def split_spec(spec: str) -> tuple[str, str]:
    """Name and argument. An address alone names who speaks to it, `https://HOST` as well as `http://HOST`."""
    name, _, argument = spec.partition(":")
    return ("http", spec) if name == "https" and argument.startswith("//") else (name, argument)


def _module(kind: str, registry: Mapping[str, str], name: str) -> Any:
    if name not in registry:
        known = ", ".join(sorted(registry))
        raise SettingsError(f"There is no {kind} {name!r}.", f"Known: {known} (as NAME or NAME:ARGUMENT).")
    try:
        return import_module(registry[name], __package__)
    except ImportError as error:
        missing = error.name or str(error)
        raise SettingsError(
            f"{kind.capitalize()} {name!r} needs {missing!r}, which cannot be imported ({error}).",
            f"Install it: pip install {missing.split('.')[0]}",
        ) from error
