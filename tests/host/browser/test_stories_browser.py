"""The side bar's list of stories in a real browser: found, put on the canvas, run, and deleted.

The screenshots are written to INTERLEAVE_SCREENSHOTS, to be looked at.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..graphs.passing_runs import loop
from ..server.comfy_server import ComfyServer
from ..server.runs import journals
from .page import FINISHED, opened_graph, ran, screenshot

TAB = ".interleave-stories-tab-button"
STORY = ".it-story"
ONLY_LOADED = """() => {
  for (const node of [...app.graph._nodes])
    if (!['InterleaveLoadTrajectory', 'InterleaveStoryboard'].includes(node.type)) app.graph.remove(node);
}"""


def test_a_story_is_found_loaded_and_deleted(page: Any, host: ComfyServer, tmp_path: Path) -> None:
    for name in ("lighthouse keeper", "lighthouse cat"):
        opened_graph(page, loop(name))
        ran(page)
        page.wait_for_selector(FINISHED)
    page.evaluate("() => app.graph.clear()")
    page.locator(TAB).click()
    page.wait_for_selector(STORY)
    page.get_by_placeholder("Search stories").fill("lighthouse")
    page.wait_for_function(f"() => document.querySelectorAll('{STORY}').length === 2")
    assert "lighthouse cat" in page.locator(STORY).first.inner_text(), "the newest is first"
    assert "3 steps" in page.locator(STORY).first.inner_text()
    page.wait_for_function(
        "() => [...document.querySelectorAll('.it-story img')].every(image => image.naturalWidth > 0)"
    )
    screenshot(page, "stories", tmp_path)

    page.locator(STORY).first.get_by_text("Load", exact=True).click()
    page.evaluate(ONLY_LOADED)
    page.wait_for_timeout(500)
    screenshot(page, "stories-loaded", tmp_path)
    ran(page)
    assert page.evaluate("() => app.graph._nodes.length") == 2
    screenshot(page, "stories-shown", tmp_path)

    (cat,) = journals(host, "lighthouse cat")
    page.locator(STORY).first.get_by_label("Delete this story").click()
    screenshot(page, "stories-question", tmp_path)
    page.locator(STORY).first.get_by_text("Keep", exact=True).click()
    assert cat.is_dir()
    page.locator(STORY).first.get_by_label("Delete this story").click()
    page.locator(STORY).first.get_by_text("Delete", exact=True).click()
    page.wait_for_function(f"() => document.querySelectorAll('{STORY}').length === 1")
    assert not cat.exists() and journals(host, "lighthouse keeper")
    assert page.faults == []
