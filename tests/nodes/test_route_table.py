"""SECURITY.md lists every route that the pack adds to ComfyUI's server, with its reason."""

from __future__ import annotations

import re
from pathlib import Path

from interleave_thinker.backend.output.live.browser_requests import RUN_ROUTES

ROOT = Path(__file__).resolve().parents[2]
ROUTE = re.compile(r'\bRoute\(\s*"(GET|POST)",\s*f?"(?:\{PREFIX\}|/interleave-thinker)/([\w-]+)"')
ROW = re.compile(r"^\| `(GET|POST) /interleave-thinker/([\w-]+)` \| ([^|]{10,}) \|", re.MULTILINE)


def test_every_route_has_a_reason() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "nodes").rglob("*.py")]
    calls = sum(len(re.findall(r"\bhost\.Route\(", source)) for source in sources)
    registered = [(method, name) for source in sources for method, name in ROUTE.findall(source)]
    assert len(registered) + 1 == calls, "a route is written in another form than this test reads"
    registered += [(method, name) for method, name, _ in RUN_ROUTES]  # the one call for all of them
    text = (ROOT / "SECURITY.md").read_text("utf-8").partition("## Routes of the web app")[0]
    listed = [(method, name) for method, name, _ in ROW.findall(text)]
    assert sorted(listed) == sorted(registered)
