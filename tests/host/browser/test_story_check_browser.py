"""The story check in a real browser: its findings, and the step that is generated again.

The screenshots are written to INTERLEAVE_SCREENSHOTS, to be looked at.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..graphs.story_checks import HAT, accepted, checked, finding
from .page import FINISHED, REOPENED, TALL, opened_graph, ran, screenshot

STARTED = "() => { app.queuePrompt(0, 1) }"
AGAIN = "Step 2 is generated again, then the later steps that depend on it."


def test_the_view_shows_findings_and_the_step_that_is_generated_again(
    canvas: tuple[Any, str], tmp_path: Path
) -> None:
    page, how = canvas
    graph = checked(f"checked in {how}", [*accepted(3), finding(2), *accepted(2)], size=(192, 128))
    graph["critic"]["inputs"]["seconds_per_word"] = 0.3
    del graph["board"], graph["report"]  # in Nodes 2.0 they would cover the view
    opened_graph(page, graph)
    if how == "vue":
        page.evaluate(REOPENED)
    page.evaluate(TALL)
    page.evaluate(STARTED)
    check = page.locator(".it-check")
    check.get_by_text(AGAIN).wait_for()
    page.wait_for_timeout(300)
    screenshot(page, f"story-check-{how}-running", tmp_path)
    page.wait_for_selector(FINISHED)
    check.get_by_text("Step 2 was generated again, with the later steps that depend on it.").wait_for()
    button = check.get_by_role("button")
    assert button.inner_text().split() == f"2. Step 2 Story check, identity, attempt 1: {HAT}".split()
    button.click()
    assert page.locator(".it-name").inner_text() == "2. Step 2"
    titles = page.locator(".it-attempt-title").all_inner_texts()
    assert titles == ["Attempt 1", "Attempt 2 · story check"]
    page.wait_for_timeout(500)
    screenshot(page, f"story-check-{how}-finished", tmp_path)
    # Opened again it shows the same.
    page.evaluate(REOPENED)
    page.locator(".it-check").get_by_text(HAT).wait_for()
    assert page.outside == [] and page.faults == []


def test_a_story_that_fits_says_so(page: Any) -> None:
    graph = checked("checked in the browser and right", [*accepted(3), finding()])
    opened_graph(page, graph)
    ran(page)
    page.wait_for_selector(FINISHED)
    assert page.locator(".it-check").inner_text() == "Story check: every image fits the story."
