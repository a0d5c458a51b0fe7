"""A story that waits for the user in a real browser: approved and skipped with the buttons of the live view.

The screenshots are written to INTERLEAVE_SCREENSHOTS, to be looked at.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..graphs.pauses import paused, reasons
from ..server.comfy_server import ComfyServer
from ..server.runs import journals
from .page import FINISHED, REOPENED, TALL, opened_graph, ran, screenshot

WAITS = "() => document.querySelector('.it-notice')?.innerText.includes('Step {step} waits for you')"


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
    notice.get_by_text("Skip step", exact=True).click()
    page.wait_for_selector(FINISHED)
    assert reasons(folder) == ["picked", "skipped"]
    page.wait_for_timeout(500)
    screenshot(page, f"pause-{how}-skipped", tmp_path)
    assert not notice.is_visible()
    assert page.outside == [] and page.faults == []
