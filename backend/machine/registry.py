"""Registries that turn a name from the command line, a node or a config into an object.

A registry maps names to modules of this package and imports a module only when its name is used. Listing
backends is therefore fast, and a missing optional library is an error only of the backend that needs it.
Names that are not built in are looked up among the installed plug-ins (plugins.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from ..errors import SettingsError
from .plugins import damaged_packages, find_plugin, load_plugin, plugin_names


@dataclass(frozen=True)
class Registry:
    """Implementations of one protocol by name.

    Attributes:
        kind: Singular noun for messages, such as "generator".
        built_in: Modules by name, as `.MODULE` or `.MODULE:ATTRIBUTE`, relative to `package`.
        package: Package that the modules are relative to.
        group: Entry-point group of the plug-ins.
        attribute: Attribute taken from a module that is listed without one. `open` for implementations that
            are opened with `NAME:ARGUMENT`.
    """

    kind: str
    built_in: Mapping[str, str]
    package: str
    group: str
    attribute: str = "open"

    @property
    def plugins(self) -> list[str]:
        """Names of the installed plug-ins, without importing them.

        A plug-in cannot replace a built-in name.
        """
        return [name for name in plugin_names(self.group) if name not in self.built_in]

    @property
    def names(self) -> list[str]:
        """All names: built-in names in their order, then plug-ins."""
        return [*self.built_in, *self.plugins]

    def load(self, name: str) -> Any:
        """Import the implementation of a name.

        Raises:
            SettingsError: The name is unknown, or its module cannot be imported.
        """
        return self._load(name)[1]

    def open(self, spec: str, **options: object) -> Any:
        """Call `open(argument, **options)` of the implementation of `NAME[:ARGUMENT]`.

        Args:
            spec: Name and optional argument.
            **options: Options of `open`. Options that are None are not passed.

        Raises:
            SettingsError: The name is unknown, its module cannot be imported, or it does not accept an
                option.
        """
        name, argument = split_spec(spec)
        module, opened = self._load(name)
        accepted = self._option_names(name, module, opened)
        given = {key: value for key, value in options.items() if value is not None}
        for key in given:
            if key not in accepted:
                raise SettingsError(f"{self.kind.capitalize()} {name!r} does not accept the option {key!r}.")
        try:
            inspect.signature(opened).bind(argument, **given)
        except TypeError as error:
            raise SettingsError(f"Cannot open the {self.kind} {name!r}: {error}.") from error
        return opened(argument, **given)

    def option_names(self, spec: str) -> frozenset[str]:
        """Return the names of the options that `open` of `NAME[:ARGUMENT]` accepts.

        Raises:
            SettingsError: The name is unknown, or its module cannot be imported.
        """
        name = split_spec(spec)[0]
        return self._option_names(name, *self._load(name))

    def parameters(self, name: str, implementation: Any) -> list[inspect.Parameter]:
        """Return the parameters of an implementation.

        Raises:
            SettingsError: The implementation is not a function, or Python cannot inspect its parameters.
        """
        try:
            return list(inspect.signature(implementation).parameters.values())
        except (TypeError, ValueError) as error:
            raise SettingsError(f"Cannot use the {self.kind} {name!r}: {error}.") from error

    def _option_names(self, name: str, module: ModuleType, opened: Any) -> frozenset[str]:
        parameters = self.parameters(name, opened)[1:]
        named = {parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD}
        # A module can list the options of `**options` as fields of a pydantic model named OPTIONS.
        return frozenset(named.union(getattr(getattr(module, "OPTIONS", None), "model_fields", ())))

    def _load(self, name: str) -> tuple[ModuleType, Any]:
        if name not in self.built_in:
            plugin = find_plugin(self.group, name)
            if plugin is None:
                raise SettingsError(f"Unknown {self.kind} {name!r}.", self._known(name))
            return load_plugin(plugin, self.attribute)
        target, _, attribute = self.built_in[name].partition(":")
        try:
            module = import_module(target, self.package)
        except ImportError as error:
            missing = error.name or str(error)
            raise SettingsError(
                f"{self.kind.capitalize()} {name!r} needs {missing!r}, which cannot be imported ({error}).",
                f"Install it: pip install {missing.split('.')[0]}",
            ) from error
        return module, getattr(module, attribute or self.attribute)

    def _known(self, name: str) -> str:
        form = " (as NAME or NAME:ARGUMENT)" if self.attribute == "open" else ""
        damaged = ", ".join(damaged_packages())
        unread = f" The plug-in metadata of {damaged} is damaged: update or reinstall it."
        return f"Known: {', '.join(self.names)}{form}.{unread if damaged else ''}"


def split_spec(spec: str) -> tuple[str, str]:
    """Split a spec into name and argument.

    A bare address `http://HOST` or `https://HOST` has the name `http`.
    """
    name, _, argument = spec.partition(":")
    return ("http", spec) if name == "https" and argument.startswith("//") else (name, argument)
