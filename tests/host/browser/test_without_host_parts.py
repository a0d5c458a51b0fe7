"""Unofficial parts of the front end are missing: the console explains it, and everything else works."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ..graphs.klein import story
from ..graphs.replies import verdict
from .page import READY, opened_graph, ran, screenshot

WITHOUT_NAMES = """
const hidden = new Set(NAMES);
const real = window.comfyAPI.app.app;
export const app = new Proxy(real, {get: (one, name) => {
  if (hidden.has(name)) return undefined;
  const value = one[name];
  return typeof value === 'function' ? value.bind(one) : value;
}});
"""
WITHOUT_MODE = """
let shown;
Object.defineProperty(window, 'LiteGraph', {configurable: true, get: () => shown, set: real => {
  shown = new Proxy(real, {get: (one, name) => name === 'vueNodesMode' ? undefined : one[name]});
}});
"""
WITHOUT_DRAWING = (
    "() => delete LiteGraph.registered_node_types.InterleaveCriticLoop.prototype.onDrawBackground"
)
LINES = (
    "a setting for the language",
    "vueNodesMode",
    "processMouseWheel",
    "onDrawBackground",
    "registerSidebarTab",
)


def reloaded_without(page: Any, *names: str) -> list[str]:
    """Reload the page with these parts missing in `app`. Return the list of later console lines."""
    said: list[str] = []
    page.on("console", lambda line: said.append(line.text) if "InterleaveThinker:" in line.text else None)
    body = WITHOUT_NAMES.replace("NAMES", json.dumps(names))
    page.route(
        "**/scripts/app.js", lambda route: route.fulfill(body=body, content_type="application/javascript")
    )
    page.reload()
    page.wait_for_function(READY)
    return said


def told(page: Any) -> None:
    """A story of two steps runs and is followed in the live view."""
    graph = story("host parts", ["a", "b"], (64, 64), critic=json.dumps([verdict(True)] * 2))
    opened_graph(page, graph)
    ran(page)
    page.wait_for_selector(".it-live[data-status=finished]")
    assert page.locator(".it-card").count() == 2


@pytest.fixture
def french(locale: str, page: Any) -> Any:
    return page


@pytest.mark.parametrize("name", ["ui", "extensionManager"])
def test_both_settings_apis_give_the_language(french: Any, name: str) -> None:
    said = reloaded_without(french, name)
    opened_graph(french, story("host parts", ["a"], (64, 64)))
    french.get_by_text("Les étapes apparaissent ici").first.wait_for()
    assert [one for one in said if "registerSidebarTab" not in one] == []


def test_without_the_host_parts_a_story_runs_in_english(french: Any, tmp_path: Path) -> None:
    page = french
    page.add_init_script(WITHOUT_MODE)
    said = reloaded_without(page, "ui", "extensionManager", "canvas", "rootGraph")
    page.evaluate(WITHOUT_DRAWING)
    told(page)
    assert [sum(line in one for one in said) for line in LINES] == [1] * len(LINES), said
    assert len(said) == len(LINES)
    screenshot(page, "without-host-parts", tmp_path)
