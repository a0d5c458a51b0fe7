"""The pages of the errors, and of the image service's HTTP routes, from its OpenAPI description."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from .markdown import code, listed, page, table, text

STATUSES = {"NoRoute": "404, 405"}
"""Statuses of errors that have another one by request."""
ERRORS = """
Every error of the package derives from `InterleaveError`. Its text states what failed, where, and what to
do. `error.message` is the first part and `error.hint` the advice. The command line prints the text after
`Error:` and exits with the code below; ComfyUI shows the class and the text at the node that failed.
"""
FAILURES = """
## Failures that do not raise

An image that could not be generated or judged does not end a run. The error becomes part of the attempt
(`attempt.error`), the loop continues with the next attempt, and the report names the error. A run stops
early if two judgments in a row fail, or when it is cancelled. [Exit codes of the command
line](command-line.md#exit-codes).
"""
SERVICE = """
## HTTP statuses of the image service

`interleave-thinker serve` answers a request without an image with one of these statuses. The published
protocol always has the field `success`; a refusal by the model itself is status 200 with `success:
false`.
"""
ROUTES = """
Routes of `interleave-thinker serve`. A running service shows the same at `/docs`, and as OpenAPI at
`/openapi.json`. Unknown fields are accepted and have no effect; an answer lists those in `ignored`. If a
key is set (`--key-env`), every request needs the header `Authorization: Bearer KEY`, except where a route
says otherwise.

    curl http://127.0.0.1:8011/edit -H "Content-Type: application/json" -d '{"prompt": "a boat", "seed": 7}'
"""


def errors_page() -> str:
    """Return the page of the errors of the package and of its service."""
    from interleave_thinker.backend.core import errors
    from interleave_thinker.service import front, pool  # noqa: F401 - errors of other modules derive from pool's
    from interleave_thinker.service.web import app  # noqa: F401

    def exit_code(kind: type) -> str:
        codes = {errors.Cancelled: "130", errors.SettingsError: "2", errors.InterleaveError: "1"}
        return next(code for base, code in codes.items() if issubclass(kind, base))

    rows = [
        (code(kind.__name__), code(kind.__bases__[0].__name__), exit_code(kind), text(kind.__doc__))
        for kind in _family(errors.InterleaveError)
        if kind.__module__ == errors.__name__
    ]
    kinds = sorted(_family(pool.ServiceError), key=lambda one: (one.status, one.__name__))
    served = [
        (code(kind.__name__), STATUSES.get(kind.__name__, str(kind.status)), text(kind.__doc__))
        for kind in kinds
        if kind is not pool.ServiceError
    ]
    classes = table(("Class", "Base", "Exit code", "Raised when"), rows)
    statuses = table(("Class", "Status", "Meaning"), served)
    source = "`backend/core/errors.py` and `service/`"
    return page("Errors", source, ERRORS, "## Classes", classes, FAILURES, SERVICE, statuses)


def _family(kind: type[Any]) -> Iterator[type[Any]]:
    yield kind
    for inner in kind.__subclasses__():
        yield from _family(inner)


def http_page() -> str:
    """Return the page of the routes."""
    from interleave_thinker.service.settings import ServiceSettings
    from interleave_thinker.service.web.app import create_app

    # The description of the routes does not depend on models.
    pool: Any = SimpleNamespace(models=tuple, workers=tuple)
    description = create_app(pool, ServiceSettings(key_env="")).openapi()
    groups: dict[str, list[str]] = {}
    for path, methods in description["paths"].items():
        for method, route in methods.items():
            group = (route.get("tags") or ["service"])[0]
            groups.setdefault(f"## {group[:1].upper()}{group[1:]}", []).extend(_route(path, method, route))
    blocks = [block for title, routes in groups.items() for block in (title, *routes)]
    return page("HTTP routes", "the service's routes", ROUTES, *blocks)


def _route(path: str, method: str, route: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {method.upper()} {path}"
    yield text(route.get("summary", "")) + "."
    rows = [
        _row(one["name"], one.get("schema", {}), one.get("required"), one["in"])
        for one in route.get("parameters", ())
    ]
    bodies = route.get("requestBody", {}).get("content", {})
    for schema in (content.get("schema", {}) for content in bodies.values()):
        for name, one in schema.get("properties", {}).items():
            rows.append(_row(name, one, name in schema.get("required", ()), "body"))
    yield f"Body: {listed(bodies)}" if bodies else ""
    yield table(("Field", "In", "Value", "Default", "Description"), rows)


def _row(name: str, schema: Mapping[str, Any], required: bool | None, place: str) -> tuple[str, ...]:
    default = schema.get("default")
    shown = "required" if required else "" if default is None else code(str(default))
    values = ", ".join(
        _value(one) for one in schema.get("anyOf", (schema,)) if one.get("type", "null") != "null"
    )
    return code(name), place, values, shown, text(schema.get("description"))


def _value(one: Mapping[str, Any]) -> str:
    kind = one["type"]
    low = one.get("minimum", one.get("minLength", one.get("exclusiveMinimum")))
    high = one.get("maximum", one.get("maxLength", one.get("exclusiveMaximum")))
    unit = " characters" if kind == "string" else ""
    if one.get("enum"):
        return listed(one["enum"])
    if high is not None:
        high = f"{high:.15g}" if isinstance(high, float) else str(high)
    return kind + bounds(None if low is None else f"{low:.15g}", high, unit)


def bounds(low: str | None, high: str | None, unit: str = "") -> str:
    """Return the range of a value, as it follows its type."""
    if low is None:
        return "" if high is None else f", up to {high}{unit}"
    return f", {low} or more{unit}" if high is None else f", {low} to {high}{unit}"
