"""The pages: `/` with the state of the service and a form, and `/docs` with all routes.

They use no other host and no framework. Browsers get the page, and other clients the JSON of the published
services. The policies allow only the script and the style in the page, by their digests, so that text in a
model's name or an error cannot run. Images of other clients are shown only with the API key, and without
prompts or client addresses. FastAPI's own documentation page loads a script from another host, which would
run with the origin of the service.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse

from ..front import Front
from ..pool import ServiceError

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


FILE = Path(__file__).with_name("page.html")
SAID = {"message": "Image models as a service; see /docs for the routes.", "status": "running"}
KINDS = ((b"\x89PNG", "image/png"), (b"RIFF", "image/webp"))


class NoSuchImage(ServiceError):
    """The image is not cached any more."""

    status = 404


def page_routes(front: Front) -> APIRouter:
    """Return the routes of `/` and of the last images."""
    router = APIRouter(tags=["page"])

    @router.get("/", summary="State of the service; a page for browsers")
    async def root(request: Request) -> Response:
        if "text/html" not in request.headers.get("accept", ""):
            return JSONResponse(SAID, headers={"Vary": "Accept"})
        text, policy = _page()
        return HTMLResponse(
            text,
            headers={
                "Content-Security-Policy": policy,
                "Cache-Control": "no-cache",
                "Referrer-Policy": "no-referrer",
                "Vary": "Accept",
                "X-Content-Type-Options": "nosniff",
            },
        )

    @router.get("/recent", summary="The last images, newest first")
    async def recent() -> list[dict[str, Any]]:
        found = []
        for key in dict.fromkeys(front.recent):
            drawn = front.kept.get(key)
            if drawn is not None:
                width, height = drawn.size
                seconds = round(drawn.draw_seconds, 3)
                found.append(
                    {"id": key, "width": width, "height": height, "seed": drawn.seed, "seconds": seconds}
                )
        return found

    @router.get("/recent/{key}", summary="One of the last images")
    async def image(key: str) -> Response:
        drawn = front.kept.get(key) if key in front.recent else None
        if drawn is None:
            raise NoSuchImage("This image is no longer cached.")
        kind = next((kind for start, kind in KINDS if drawn.image.startswith(start)), "image/png")
        return Response(drawn.image, media_type=kind, headers={"X-Content-Type-Options": "nosniff"})

    return router


@lru_cache(maxsize=1)
def _page() -> tuple[str, str]:
    """Return the page, and the content security policy for it."""
    text = FILE.read_text(encoding="utf-8")
    script, style = (_digest(text, name) for name in ("script", "style"))
    return text, (
        f"default-src 'none'; script-src {script}; style-src {style}; img-src blob: data:; "
        "connect-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _digest(text: str, name: str) -> str:
    found = re.search(f"<{name}>(.*?)</{name}>", text, re.DOTALL)
    assert found is not None
    return f"'sha256-{base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode()}'"
