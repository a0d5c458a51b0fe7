"""Attempt Start and Attempt End in a real browser: followed, compared, corrected and continued.

They work like a Critic Loop, on the canvas and with Nodes 2.0, without an error in the console.

The screenshots are written to INTERLEAVE_SCREENSHOTS, to be looked at.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..graphs.attempt_pairs import pair
from ..graphs.replies import verdict
from ..server.comfy_server import ComfyServer
from ..server.runs import journals, ran_in
from .attempt_page import opened
from .page import RUN, screenshot

REOPENED = "async () => { const graph = app.graph.serialize(); await app.loadGraphData(graph) }"
FORGOTTEN = """async () => {
  const graph = app.graph.serialize();
  graph.id = crypto.randomUUID();
  await app.loadGraphData(graph);
}"""


INTO_ONE_NODE = """() => {
  const inside = app.graph._nodes.filter(node => /Try(Open|Close)|Paint|Tint/.test(node.type));
  const { node } = app.graph.convertToSubgraph(new Set(inside));
  return Object.keys(app.graph._nodes.find(one => one.id === node.id).subgraph._nodes);
}"""


def ran(page: Any) -> None:
    kind, detail = page.evaluate(RUN)
    assert kind == "execution_success", json.dumps(detail)[:2000]
    page.wait_for_selector(".it-live[data-status=finished]")
    page.wait_for_timeout(700)


def test_a_pair_is_followed_corrected_and_continued(
    canvas: tuple[Any, str], host: ComfyServer, tmp_path: Path
) -> None:
    page, how = canvas
    request = f"pair in {how}"
    replies = [verdict(False, f"{request} with a door", 0.25), verdict(True, "", 0.9)] * 2
    opened(page, pair(request, None, replies=replies))
    ran(page)
    screenshot(page, f"pair-{how}-finished", tmp_path)
    attempts = page.locator(".it-attempt")
    assert attempts.count() == 2 and page.locator(".it-card").count() == 1
    assert page.locator(".it-prompt ins").first.text_content().strip() == "with a door"
    painted = ran_in(host).count("paint")
    attempts.nth(0).locator("summary").click()
    attempts.nth(0).get_by_title("This image is wrong (recorded as feedback for training)").click()
    attempts.nth(0).get_by_text("Use this attempt").click()
    page.get_by_text("Your choice for step 1 takes effect with the next run.").wait_for()
    screenshot(page, f"pair-{how}-choice", tmp_path)
    (folder,) = journals(host, request)
    assert json.loads((folder / "feedback.jsonl").read_text().splitlines()[0])["accepted"] is False
    ran(page)
    page.get_by_text("Attempt 1 picked by hand").first.wait_for()
    assert ran_in(host).count("paint") == painted
    # Opened again it shows the same: from the server first, and from the run's folder when it forgot.
    for again in (REOPENED, FORGOTTEN):
        page.evaluate(again)
        page.wait_for_selector(".it-live[data-status=finished]")
        page.get_by_text("Attempt 1 picked by hand").first.wait_for()
        assert page.locator(".it-attempt").count() == 2
    assert page.outside == [] and page.faults == []


def test_a_pair_in_a_subgraph_runs(page: Any, tmp_path: Path) -> None:
    opened(page, pair("pair in a subgraph", 3))
    assert len(page.evaluate(INTO_ONE_NODE)) == 4
    for _ in range(2):
        kind, detail = page.evaluate(RUN)
        assert kind == "execution_success", json.dumps(detail)[:2000]
    page.wait_for_timeout(1000)
    screenshot(page, "pair-in-subgraph", tmp_path)
    assert page.faults == []
