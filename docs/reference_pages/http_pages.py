"""The page of the image service's HTTP routes, from its OpenAPI description."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .markdown import code, listed, note, page, table, text

INTRODUCTION = """
Routes of `interleave-thinker serve`. A running service shows the same at `/docs`, and as OpenAPI at
`/openapi.json`. Unknown fields are accepted and have no effect; an answer lists those in `ignored`. If a
key is set (`--key-env`), every request needs the header `Authorization: Bearer KEY`, except where a route
says otherwise.

    curl http://127.0.0.1:8011/edit -H "Content-Type: application/json" -d '{"prompt": "a boat", "seed": 7}'
"""


class NoModels:
    """A pool without models: the description of the routes does not depend on them."""

    def models(self) -> tuple[()]:
        """Return no models."""
        return ()

    def workers(self) -> tuple[()]:
        """Return no workers."""
        return ()


def pages(root: Path) -> dict[str, str]:
    """Return the page `http.md`."""
    from interleave_thinker.service.settings import ServiceSettings
    from interleave_thinker.service.web.app import create_app

    pool: Any = NoModels()
    description = create_app(pool, ServiceSettings(key_env="")).openapi()
    groups: dict[str, list[str]] = {}
    for path, methods in description["paths"].items():
        for method, route in methods.items():
            group = (route.get("tags") or ["service"])[0]
            groups.setdefault(group, []).extend(_route(path, method, route))
    blocks = ["# HTTP routes", note("the service's routes"), INTRODUCTION]
    for group, routes in groups.items():
        blocks += [f"## {group[:1].upper()}{group[1:]}", *routes]
    return {"http.md": page(*blocks)}


def _route(path: str, method: str, route: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {method.upper()} {path}"
    yield text(route.get("summary", "")) + "."
    rows = [
        _row(one["name"], one.get("schema", {}), one.get("required"), one["in"])
        for one in route.get("parameters", ())
    ]
    kinds = []
    for kind, content in route.get("requestBody", {}).get("content", {}).items():
        kinds.append(kind)
        schema = content.get("schema", {})
        needed = schema.get("required", ())
        rows += [
            _row(name, one, name in needed, "body") for name, one in schema.get("properties", {}).items()
        ]
    if kinds:
        yield f"Body: {listed(kinds)}"
    yield table(("Field", "In", "Value", "Default", "Description"), rows)


def _row(name: str, schema: Mapping[str, Any], required: bool | None, place: str) -> tuple[str, ...]:
    default = schema.get("default")
    shown = "required" if required else "" if default is None or default == "" else code(str(default))
    return code(name), place, ", ".join(_values(schema)), shown, text(schema.get("description", ""))


def _values(schema: Mapping[str, Any]) -> Iterator[str]:
    for one in schema.get("anyOf", (schema,)):
        kind = one.get("type")
        if kind in (None, "null"):
            continue
        low = one.get("minimum", one.get("minLength", one.get("exclusiveMinimum")))
        high = one.get("maximum", one.get("maxLength", one.get("exclusiveMaximum")))
        if one.get("enum"):
            yield listed(map(str, one["enum"]))
        elif low is None and high is None:
            yield kind
        else:
            unit = " characters" if kind == "string" else ""
            upper = "or more" if high is None else f"to {high:g}" if isinstance(high, float) else f"to {high}"
            yield f"{kind}, {upper.replace('to', 'up to', 1) if low is None else f'{low:g} {upper}'}{unit}"
