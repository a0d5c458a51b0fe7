"""How an object becomes one with all members of a seam's base class: adopted, or wrapped around another one.

A plug-in or a script may pass a model without the base class, such as one written for release 0.3.0. `adopt`
returns it as an instance of the class. What it has is used, even if it fails: an error in a property of a
plug-in is never taken for a missing property. What it lacks has the default of the base class.
"""

from __future__ import annotations

import inspect
from abc import update_abstractmethods
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from ..errors import SettingsError

Base = TypeVar("Base")
Wrapper = TypeVar("Wrapper", bound=type)
WITH_METHOD = {
    "answers_together": "reply_together",
    "checks_items": "check",
    "draws_many": "draw_many",
    "follows_anchor": "set_anchor",
    "judges_together": "judge_together",
    "repeats": "numbers",
}
"""Capabilities that an object without the base class has if it has the method."""
COPIES = frozenset({"stopped_by", "with_draw_options", "with_step_settings"})
"""Methods that return a model of the same kind, which is adopted too."""


def adopt(found: Any, base: type[Base]) -> Base:
    """Return an object as an instance of a base class, which must be abstract.

    Raises:
        SettingsError: It is a class, or lacks a member that has no default.
    """
    if isinstance(found, type):
        raise SettingsError(f"{found.__name__} is a class.", f"Pass an instance: {found.__name__}().")
    if inspect.isfunction(inspect.getattr_static(found, "identity", None)):
        raise SettingsError(
            f"The identity of {type(found).__name__} is a method.", "Make it a text or a property."
        )
    if isinstance(found, base):
        return found
    if missing := sorted(name for name in vars(base)["__abstractmethods__"] if not has_member(found, name)):
        raise SettingsError(
            f"{type(found).__name__} has no {' and no '.join(map(repr, missing))}.",
            f"Write a subclass of {base.__name__}.",
        )
    return _adopting(base)(found)


def returned(value: object, kind: type[Base], role: str, hint: str) -> Base:
    """Return what a method of a model of your own returned, if it is of the right class.

    Raises:
        SettingsError: It is not.
    """
    if isinstance(value, kind):
        return value
    raise SettingsError(f"The {role} returned {type(value).__name__}, not {kind.__name__}.", hint)


def has_member(found: Any, name: str) -> bool:
    """Return whether an object has a member, without reading it: its property may fail."""
    try:
        inspect.getattr_static(found, name)
    except AttributeError:
        # An object that finds its members with `__getattr__` has to be asked.
        return hasattr(type(found), "__getattr__") and hasattr(found, name)
    return True


def forwards(base: type, to: str) -> Callable[[Wrapper], Wrapper]:
    """Return a decorator of wrapper classes, which pass on what they do not define themselves.

    Args:
        base: Base class whose members are passed on.
        to: Name of the attribute that is the wrapped model.
    """

    def decorate(wrapper: Wrapper) -> Wrapper:
        for name in vars(base).keys() - vars(wrapper).keys():
            if not name.startswith("_"):
                setattr(wrapper, name, _forwarded(to, name))
        update_abstractmethods(wrapper)
        return wrapper

    return decorate


def _forwarded(to: str, name: str) -> property:
    return property(
        lambda self: getattr(getattr(self, to), name),
        lambda self, value: setattr(getattr(self, to), name, value),
    )


@cache
def _adopting(base: type) -> Callable[[Any], Any]:
    class Adopted(base):
        def __init__(self, found: Any) -> None:
            object.__setattr__(self, "_found", found)

        def __getattribute__(self, name: str) -> Any:
            own = object.__getattribute__
            if name.startswith("_"):
                return own(self, name)
            found = own(self, "_found")
            if has_member(found, name):
                member = getattr(found, name)
                return _adopting_results(member, base) if name in COPIES else member
            method = WITH_METHOD.get(name)
            return own(self, name) if method is None else has_member(found, method)

        def __setattr__(self, name: str, value: Any) -> None:
            setattr(object.__getattribute__(self, "_found"), name, value)

    Adopted.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]
    return Adopted


def _adopting_results(method: Callable[..., Any], base: type) -> Callable[..., Any]:
    return lambda *given, **named: adopt(method(*given, **named), base)
