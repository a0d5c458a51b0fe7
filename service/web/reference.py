"""The page at `/docs`: all routes and their fields, generated from the description in `/openapi.json`.

It is one page without scripts. FastAPI's own page loads a script from another host, which would run in the
user's browser with the origin of the service, and shows nothing without internet access.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.responses import HTMLResponse

STYLE = """
:root { color-scheme: light dark; --dim: #63635e; --line: #dcdcd6; --panel: #f6f6f4; --accent: #1f5fbf; }
@media (prefers-color-scheme: dark) {
  :root { --dim: #a3a39d; --line: #3a3a3d; --panel: #202022; --accent: #8ab4f8; }
}
body { max-width: 60rem; margin: 0 auto; padding: 1.25rem; font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.25rem; } h2 { font-size: 1rem; margin: 2rem 0 .5rem; } a { color: var(--accent); }
details { border: 1px solid var(--line); border-radius: .4rem; margin: .4rem 0; background: var(--panel); }
summary { padding: .4rem .7rem; cursor: pointer; overflow-wrap: anywhere; }
summary span { color: var(--dim); } code { font-size: .875rem; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; font-size: .875rem; table-layout: fixed; }
th, td { text-align: left; vertical-align: top; padding: .3rem .7rem; border-top: 1px solid var(--line);
  overflow-wrap: anywhere; }
th:nth-child(2) { width: 30%; } td:nth-child(2) { color: var(--dim); }
details p { margin: .3rem .7rem; } :focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
"""
STYLE_DIGEST = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; style-src 'sha256-{STYLE_DIGEST}'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


def reference_routes(app: FastAPI) -> APIRouter:
    """Return the routes of `/docs` and, as an alias, `/redoc`."""
    router = APIRouter(include_in_schema=False)

    @router.get("/docs")
    @router.get("/redoc")
    async def docs() -> HTMLResponse:
        headers = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff"}
        return HTMLResponse(reference_page(app.openapi()), headers=headers)

    return router


def reference_page(description: Mapping[str, Any]) -> str:
    """Return the page of an OpenAPI description."""
    title = escape(str(description["info"]["title"]))
    groups: dict[str, list[str]] = {}
    for path, methods in description["paths"].items():
        for method, route in methods.items():
            groups.setdefault((route.get("tags") or ["service"])[0], []).append(_route(path, method, route))
    parts = "".join(
        f"<h2>{escape(name[:1].upper() + name[1:])}</h2>{''.join(routes)}" for name, routes in groups.items()
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{title}</title><link rel="icon" href="data:,"><style>{STYLE}</style></head><body>'
        f'<h1>{title}</h1><p>For programs: <a href="openapi.json">openapi.json</a>. <a href="./">Page to '
        "generate images</a>. Unknown fields have no effect; answers list them in "
        f"<code>ignored</code>.</p>{parts}</body></html>"
    )


def _route(path: str, method: str, route: Mapping[str, Any]) -> str:
    asked = route.get("parameters", ())
    rows = [_row(one["name"], one.get("schema", {}), one.get("required")) for one in asked]
    kinds: list[str] = []
    for kind, content in route.get("requestBody", {}).get("content", {}).items():
        kinds.append(kind)
        schema = content.get("schema", {})
        needed = schema.get("required", ())
        rows += [_row(name, one, name in needed) for name, one in schema.get("properties", {}).items()]
    asks, summary = f"{method.upper()} {escape(path)}", escape(route["summary"])
    sent = f"<p>Body: {escape(', '.join(kinds))}</p>" if kinds else ""
    head = "<table><tr><th>field</th><th>type</th><th>description</th></tr>"
    table = f"{head}{''.join(rows)}</table>" if rows else ""
    return f"<details><summary><code>{asks}</code> <span>{summary}</span></summary>{sent}{table}</details>"


def _row(name: str, schema: Mapping[str, Any], required: bool | None) -> str:
    what = ", ".join(_kinds(schema)) + (", required" if required else "")
    meaning = schema.get("description", "")
    return f"<tr><td><code>{escape(name)}</code></td><td>{escape(what)}</td><td>{escape(meaning)}</td></tr>"


def _kinds(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield the types, choices and limits of a value."""
    for one in schema.get("anyOf", (schema,)):
        kind = one.get("type")
        if kind in (None, "null"):
            continue
        low, high = one.get("minimum"), one.get("maximum")
        low = one.get("minLength") if low is None else low
        high = one.get("maxLength") if high is None else high
        bounds = (
            "" if high is None else f" {low or 0:.16g} to {high:.16g}" + (" long" if kind == "string" else "")
        )
        if "enum" in one:
            yield " | ".join(map(str, one["enum"]))
        else:
            yield ("file" if one.get("format") == "binary" else kind) + bounds
