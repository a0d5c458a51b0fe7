"""A story that waits for the user in a real browser: directed with the buttons of the live view.

The screenshots are written to INTERLEAVE_SCREENSHOTS, to be looked at.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..graphs.klein import node
from ..graphs.pauses import paused, reasons
from ..server.comfy_server import ComfyServer
from ..server.runs import journals
from .page import FINISHED, REOPENED, TALL, opened_graph, ran, screenshot

WAITS = "() => document.querySelector('.it-notice')?.innerText.includes('Step {step} waits for you')"

CENTER = """() => {
  const node = app.graph._nodes.find(one => one.type === 'InterleaveEditPlan'), { ds } = app.canvas;
  return [0, 1].map(axis => (node.pos[axis] + node.size[axis] / 2 + ds.offset[axis]) * ds.scale);
}"""
REWORDED = """text => {
  const node = app.graph._nodes.find(one => one.type === 'InterleaveEditPlan');
  const widget = node.widgets.find(one => one.name === 'edits');
  widget.value = widget.value.replace('a tree', text);
}"""


def prompts(folder: Path) -> list[str]:
    results = json.loads((folder / "trajectory.json").read_text(encoding="utf-8"))["results"]
    return [one["step"]["prompt"] for one in results]


def test_a_story_is_directed_with_the_buttons(
    canvas: tuple[Any, str], host: ComfyServer, tmp_path: Path
) -> None:
    page, how = canvas
    request = f"directed in {how}"
    graph = paused(request, "every step")
    del graph["board"], graph["report"]  # in Nodes 2.0 they would cover the buttons
    opened_graph(page, graph)
    if how == "vue":
        page.evaluate(REOPENED)
    ran(page)
    page.wait_for_function(WAITS.replace("{step}", "1"))
    page.evaluate(TALL)
    (folder,) = journals(host, request)
    assert reasons(folder) == ["accepted"]
    notice = page.locator(".it-notice")
    assert "not complete" not in notice.inner_text()
    screenshot(page, f"pause-{how}-waits", tmp_path)
    notice.get_by_text("Approve", exact=True).click()
    page.wait_for_function(WAITS.replace("{step}", "2"))
    assert reasons(folder) == ["picked", "accepted"]
    page.wait_for_timeout(500)
    screenshot(page, f"pause-{how}-approved", tmp_path)
    assert "1 approved by hand" in page.locator(".it-line").inner_text()
    assert page.locator(".it-card-state").first.inner_text() == "Approved at attempt 1"
    notice.get_by_text("Skip step", exact=True).click()
    page.wait_for_selector(FINISHED)
    assert reasons(folder) == ["picked", "skipped"]
    page.wait_for_timeout(500)
    screenshot(page, f"pause-{how}-skipped", tmp_path)
    assert not notice.is_visible()
    page.locator(".it-card-head").first.click()
    assert page.get_by_role("button", name="Approved", exact=True).is_visible()
    assert "picked" not in page.locator(".it-live").inner_text()
    assert page.outside == [] and page.faults == []


def test_a_waiting_story_is_redrawn_and_another_attempt_used(
    page: Any, host: ComfyServer, tmp_path: Path
) -> None:
    opened_graph(page, paused("directed otherwise", "every step"))
    ran(page)
    page.wait_for_function(WAITS.replace("{step}", "1"))
    page.wait_for_timeout(500)
    screenshot(page, "pause-board", tmp_path)
    assert page.locator(".p-toast-message").count() == 0, "a story that waits is not called incomplete"
    page.evaluate(TALL)
    (folder,) = journals(host, "directed otherwise")
    page.get_by_text("Better prompt", exact=True).click()
    page.locator(".it-editor textarea").fill("a red house")
    page.get_by_text("Redraw with it").click()
    page.wait_for_function("() => document.querySelectorAll('.it-attempt').length === 2")
    page.wait_for_function(WAITS.replace("{step}", "1"))
    assert reasons(folder) == ["accepted"]
    screenshot(page, "pause-redrawn", tmp_path)
    page.locator(".it-attempt").first.locator("summary").click()
    page.locator(".it-attempt").first.get_by_text("Use this attempt").click()
    page.wait_for_function(WAITS.replace("{step}", "2"))
    assert reasons(folder) == ["picked", "accepted"], "using another attempt continues the story"
    page.wait_for_timeout(500)
    screenshot(page, "pause-other-attempt", tmp_path)
    assert page.locator(".it-card-state").first.inner_text() == "Attempt 1 picked by hand"
    assert page.outside == [] and page.faults == []


def test_a_decision_is_not_called_incomplete_while_the_story_is_queued(
    page: Any, host: ComfyServer, tmp_path: Path
) -> None:
    graph = paused("directed while it is queued", "every step")
    del graph["board"], graph["report"]  # they would cover the buttons
    opened_graph(page, graph)
    ran(page)
    page.wait_for_function(WAITS.replace("{step}", "1"))
    page.evaluate(TALL)
    page.evaluate("() => { app.api.queuePrompt = () => new Promise(() => {}) }")
    notice = page.locator(".it-notice")
    notice.get_by_text("Approve", exact=True).click()
    notice.get_by_text("Queued: the story continues.").wait_for()
    screenshot(page, "pause-queued", tmp_path)
    assert notice.get_by_role("button").count() == 0
    assert page.faults == []


def test_the_rest_of_the_plan_is_edited_from_the_view(
    canvas: tuple[Any, str], host: ComfyServer, tmp_path: Path
) -> None:
    page, how = canvas
    request = f"edited at a pause in {how}"
    graph = paused(request, "every step")
    del graph["board"], graph["report"]
    outline = "1. One\n   draw: a house\n\n2. Two\n   draw: a tree"
    graph["plan"] = node("InterleaveEditPlan", edits=outline, request=request)
    opened_graph(page, graph)
    if how == "vue":
        page.evaluate(REOPENED)
    ran(page)
    page.wait_for_function(WAITS.replace("{step}", "1"))
    page.evaluate(TALL)
    (folder,) = journals(host, request)
    notice = page.locator(".it-notice")
    screenshot(page, f"pause-{how}-three-buttons", tmp_path)
    notice.get_by_text("Edit plan", exact=True).click()
    page.wait_for_timeout(500)
    screenshot(page, f"pause-{how}-edit-plan", tmp_path)
    across, down = page.evaluate(CENTER)
    assert 500 < across < 1100 and 300 < down < 700, "in the middle of 1600 x 1000 pixels"
    page.evaluate(REWORDED, "a tall tree")
    page.evaluate(TALL)
    notice.get_by_text("Approve", exact=True).click()
    page.wait_for_function(WAITS.replace("{step}", "2"))
    assert reasons(folder) == ["picked", "accepted"]
    assert prompts(folder) == ["a house", "a tall tree"]
    assert page.outside == [] and page.faults == []
