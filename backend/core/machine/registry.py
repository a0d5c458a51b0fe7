"""Registries that turn a name from the command line, a node or a config into an object, and plug-ins.

A registry maps names to modules of this package and imports a module only when its name is used. Listing
backends is therefore fast, and a missing optional library is an error only of the backend that needs it.
Other installed packages add names (generators, chat backends, scorers, exporters, benchmarks, commands) as
entry points in the groups below, and so does this package's own folder `research/`. Listing them reads only
package metadata, and a broken plug-in affects only its own name.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, EntryPoint, distributions
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import SettingsError
from .environment import collector_paused

GENERATORS = "interleave_thinker.generators"
CHAT_BACKENDS = "interleave_thinker.chat_backends"
SCORERS = "interleave_thinker.scorers"
EXPORTERS = "interleave_thinker.exporters"
BENCHMARKS = "interleave_thinker.benchmarks"
PLAN_JUDGES = "interleave_thinker.plan_judges"
COMMANDS = "interleave_thinker.commands"
NAME = re.compile(r"[\w.-]+")
"""Valid names of plug-ins.

A colon would begin the argument, and control characters must not reach a terminal.
"""
UNREADABLE = (OSError, TypeError, ValueError, AttributeError)
"""Exceptions of importlib.metadata for damaged metadata."""

PUBLIC_NAME = "interleave_thinker"
"""Name under which plug-ins import this package."""
ROOT_NAME = __name__.removesuffix(".backend.core.machine.registry")
"""Name under which this package was imported. ComfyUI uses the path of its folder."""
ROOT = Path(__file__).parents[3]
OWN = "interleave-thinker"
HOW_TO_GET = "Install what it needs, in this package's folder: pip install '.[research]'"
"""Name of this package's distribution."""
OWN_GROUPS = re.compile(rf'^\[project\.entry-points\."({PUBLIC_NAME}\..+)"\]\n((?:.+\n)+)', re.MULTILINE)
OWN_ENTRY = re.compile(r'^"?([\w.-]+)"? = "(.+)"$', re.MULTILINE)


def plugin_names(group: str) -> list[str]:
    """Return the names of the installed plug-ins of a group, sorted, without importing them."""
    return sorted({entry.name for entry in _entries(group)})


def find_plugin(group: str, name: str) -> EntryPoint | None:
    """Return the entry point of a plug-in, or None if no installed package has it.

    Raises:
        SettingsError: Several packages have a plug-in of this name.
    """
    found = [entry for entry in _entries(group) if entry.name == name]
    packages = list(dict.fromkeys(package_of(entry) for entry in found))
    if len(packages) > 1:
        raise SettingsError(
            f"The plug-in {name!r} ({group}) is in several packages: {', '.join(packages)}.",
            "Uninstall all but one of them.",
        )
    return found[0] if found else None


def load_plugin(entry: EntryPoint, attribute: str) -> tuple[ModuleType, object]:
    """Import a plug-in.

    Args:
        entry: Its entry point: a module, or `MODULE:ATTRIBUTE`.
        attribute: Attribute of the module, if the entry point names only a module.

    Returns:
        The module and its attribute.

    Raises:
        SettingsError: The module cannot be imported or lacks the attribute; the message names the package.
    """
    name = package_of(entry)
    what = f"Cannot load the plug-in {entry.name!r} of the package {name}"
    hint = HOW_TO_GET if name == OWN else f"Update the package, or uninstall it: pip uninstall {name}"
    target, _, path = entry.value.partition(":")
    _make_importable()
    try:
        module = import_module(target.strip())
        return module, attrgetter(path.strip() or attribute)(module)
    except (Exception, SystemExit) as error:
        raise SettingsError(f"{what}: {type(error).__name__}: {error}".rstrip(". ") + ".", hint) from error


def package_of(entry: EntryPoint) -> str:
    """Return the name of the installed package that an entry point belongs to."""
    return _name_of(entry.dist) if entry.dist else OWN


def damaged_packages() -> list[str]:
    """Return the names of the installed packages whose plug-ins cannot be read or have invalid names."""
    return sorted({_name_of(package) for package in distributions() if _is_damaged(package)})


def _is_damaged(package: Distribution) -> bool:
    entries = _entries_of(package)
    return entries is None or any(
        entry.group.startswith(f"{PUBLIC_NAME}.") and not NAME.fullmatch(entry.name) for entry in entries
    )


def _entries(group: str) -> list[EntryPoint]:
    own = _entries_of_checkout()
    every = [entry for package in distributions() for entry in _entries_of(package) or ()]
    found = [entry for entry in (*(own or ()), *every) if entry.group == group and NAME.fullmatch(entry.name)]
    return [entry for entry in found if own is None or entry.dist is None or package_of(entry) != OWN]


@cache
def _entries_of_checkout() -> tuple[EntryPoint, ...] | None:
    """Return this package's own entry points from the pyproject.toml next to it, or None if there is none.

    A checkout has one; it can be used without being installed, or after an older one was. The folders that
    the entry points name may have been left out.
    """
    try:
        project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    except OSError:
        return None
    entries = [
        EntryPoint(name, value, group)
        for group, lines in OWN_GROUPS.findall(project)
        for name, value in OWN_ENTRY.findall(lines)
    ]
    return tuple(one for one in entries if (ROOT / one.module.split(".")[1]).is_dir())


def _entries_of(package: Distribution) -> tuple[EntryPoint, ...] | None:
    """Return the entry points of a package, or None if they cannot be read."""
    # importlib.metadata.entry_points() fails for every package if one of them has a damaged list.
    try:
        return tuple(package.entry_points)
    except UNREADABLE:
        return None


def _name_of(package: Distribution) -> str:
    try:
        name = str(package.metadata["Name"]) if "Name" in package.metadata else ""
    except UNREADABLE:
        name = ""
    return name or "a package without a name"


class _SamePackage(MetaPathFinder, Loader):
    """Makes `interleave_thinker` and its modules refer to this package under any name.

    A second copy would have its own classes, so its images would not be instances of this package's.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        name, _, inner = fullname.partition(".")
        return ModuleSpec(fullname, self) if name == PUBLIC_NAME and inner else None

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        # The import system returns what is in sys.modules after this.
        inner = module.__name__.removeprefix(PUBLIC_NAME)
        sys.modules[module.__name__] = import_module(f"{ROOT_NAME}{inner}")


def _make_importable() -> None:
    """Make this package importable under its public name.

    Raises:
        SettingsError: Another copy has that name.
    """
    if ROOT_NAME == PUBLIC_NAME:
        return
    package = sys.modules[ROOT_NAME]
    if sys.modules.setdefault(PUBLIC_NAME, package) is not package:
        raise SettingsError(
            f"Another copy of {PUBLIC_NAME} is loaded, from {sys.modules[PUBLIC_NAME].__file__!r}.",
            f"Plug-ins need one copy: pip uninstall {PUBLIC_NAME.replace('_', '-')}",
        )
    if not any(isinstance(finder, _SamePackage) for finder in sys.meta_path):
        sys.meta_path.insert(0, _SamePackage())


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
        files: The name that opens a file with an ending; that of a folder or hub id by the ending "".
    """

    kind: str
    built_in: Mapping[str, str]
    package: str
    group: str
    attribute: str = "open"
    files: Mapping[str, str] = field(default_factory=dict)

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
        module, opened = self._load(name, spec)
        accepted = self._option_names(name, module, opened)
        given = {key: value for key, value in options.items() if value is not None}
        for key in given:
            if key not in accepted:
                raise SettingsError(f"{self.kind.capitalize()} {name!r} does not accept the option {key!r}.")
        try:
            inspect.signature(opened).bind(argument, **given)
        except TypeError as error:
            raise SettingsError(f"Cannot open the {self.kind} {name!r}: {error}.") from error
        with collector_paused():
            return opened(argument, **given)

    def check(self, spec: str, **options: object) -> None:
        """Check a name and its argument without loading a library for models.

        A module may have a function `check` for this, with the parameters of its `open`.

        Raises:
            InterleaveError: The name is unknown, or the argument does not name a model.
        """
        name, argument = split_spec(spec)
        module, _ = self._load(name, spec)
        check = getattr(module, "check", None)
        if check is not None:
            names = inspect.signature(check).parameters
            check(argument, **{key: options[key] for key in options.keys() & names.keys()})

    def option_names(self, spec: str) -> frozenset[str]:
        """Return the names of the options that `open` of `NAME[:ARGUMENT]` accepts.

        Raises:
            SettingsError: The name is unknown, or its module cannot be imported.
        """
        name = split_spec(spec)[0]
        return self._option_names(name, *self._load(name, spec))

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
        # A module can list the options of `**options` as fields of a class named OPTIONS: a pydantic model or
        # a TypedDict.
        options = getattr(module, "OPTIONS", None)
        fields = getattr(options, "model_fields", getattr(options, "__annotations__", ()))
        return frozenset(named.union(fields))

    def _load(self, name: str, spec: str = "") -> tuple[ModuleType, Any]:
        if name not in self.built_in:
            plugin = find_plugin(self.group, name)
            if plugin is None:
                raise SettingsError(f"Unknown {self.kind} {name!r}.", self._known(spec or name))
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

    def _known(self, spec: str) -> str:
        near = get_close_matches(spec, self.names, 1)
        path = Path(spec)
        if path.suffix and path.suffix in self.files:
            near = [f"{self.files[path.suffix]}:{spec}"]
        elif self.files and (len(path.parts) > 1 or path.is_dir()):
            near = [f"{self.files['']}:{spec}"]
        guess = f"Did you mean {near[0]}? " if near else ""
        form = " (as NAME or NAME:ARGUMENT)" if self.attribute == "open" else ""
        damaged = ", ".join(damaged_packages())
        unread = f" The plug-in metadata of {damaged} is damaged: update or reinstall it."
        return f"{guess}Known: {', '.join(self.names)}{form}.{unread if damaged else ''}"


def split_spec(spec: str) -> tuple[str, str]:
    """Split a spec into name and argument.

    A bare address `http://HOST` or `https://HOST` has the name `http`.
    """
    name, _, argument = spec.partition(":")
    return ("http", spec) if name == "https" and argument.startswith("//") else (name, argument)
