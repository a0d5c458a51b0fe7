"""The Step Generator's menu of recommended settings in a real browser, in both ways to show nodes.

The screenshots are written to INTERLEAVE_SCREENSHOTS, to be looked at.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .page import WORKFLOW_READY, screenshot

ADD = """() => {
  app.graph.clear();
  const node = LiteGraph.createNode('InterleaveStepGenerator');
  node.pos = [400, 200];
  app.canvas.ds.scale = 1;
  app.canvas.ds.offset[0] = 100;
  app.canvas.ds.offset[1] = 100;
  app.graph.add(node);
  app.canvas.setDirty(true, true);
}"""
VALUES = """() => Object.fromEntries(app.graph._nodes[0].widgets.map(one => [one.name, one.value]))"""
KEPT = "() => app.graph.serialize().nodes[0].widgets_values"


def test_recommended_settings_are_taken_from_the_menu(canvas: tuple[Any, str], tmp_path: Path) -> None:
    page, how = canvas
    page.wait_for_function(WORKFLOW_READY)
    page.evaluate(ADD)
    page.wait_for_timeout(500)
    before = page.evaluate(VALUES)
    assert (before["steps"], before["scheduler"], before["edit"]) == (4, "flux2", "auto")
    kept = page.evaluate(KEPT)
    # The title bar of the node.
    page.mouse.click(600, 290, button="right")
    page.get_by_text("Recommended settings…").first.click()
    page.get_by_text("FLUX.2 klein, dev: klein, base").wait_for()
    screenshot(page, f"recommended-{how}", tmp_path)
    page.get_by_placeholder("Search models").fill("sdxl")
    (row,) = [one for one in page.locator(".it-setting").all() if one.is_visible()]
    assert "25 steps · cfg 7 · dpmpp_2m · karras · image to image" in row.inner_text()
    row.click()
    page.wait_for_timeout(300)
    after = page.evaluate(VALUES)
    taken = {"steps": 25, "cfg": 7, "sampler": "dpmpp_2m", "scheduler": "karras", "edit": "image to image"}
    assert {name: after[name] for name in taken} == taken
    assert {name: value for name, value in after.items() if name not in taken} == {
        name: value for name, value in before.items() if name not in taken
    }
    assert len(page.evaluate(KEPT)) == len(kept), "nothing more is saved"
    screenshot(page, f"recommended-taken-{how}", tmp_path)
    assert page.faults == []
