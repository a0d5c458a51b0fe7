"""Rows of Edit Plan next to their run: image and state of every step, masks and references.

The screenshots are written to INTERLEAVE_SCREENSHOTS, to be looked at.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from PIL import Image

from interleave_thinker.backend.core.types import StepImage
from interleave_thinker.backend.story.plan_editor.merge import read_edits

from ..graphs.klein import Graph, node, story
from ..graphs.replies import verdict
from ..server.comfy_server import ComfyServer
from ..server.runs import journals
from .edit_plan_page import TEXT
from .page import ran, screenshot

SIZE = (192, 128)
LAID_OUT = """async graph => {
  await app.loadApiJson(graph, 'rows');
  const find = type => app.graph._nodes.find(node => node.type === type);
  const edit = find('InterleaveEditPlan'), loop = find('InterleaveCriticLoop');
  edit.pos = [0, 0]; edit.setSize([520, 820]);
  loop.pos = [560, 0]; loop.setSize([520, 960]);
  for (const node of app.graph._nodes) if (node !== edit && node !== loop) node.pos = [-2000, 0];
  await app.loadGraphData(app.graph.serialize());
  app.canvas.ds.scale = 0.85;
  app.canvas.ds.offset[0] = 500;
  app.canvas.ds.offset[1] = 130;
  app.canvas.setDirty(true, true);
}"""

COMPARED = """() => {
  const place = selector => document.querySelector(selector).getBoundingClientRect();
  const [frame, detail] = [place('.it-compare-frame'), place('.it-detail')];
  return frame.height > 80 && frame.top >= detail.top && frame.bottom <= detail.bottom + 1;
}"""


def edited(request: str) -> Graph:
    """Return a manual story of two steps; the first is accepted at attempt 2."""
    refused = verdict(False, "a house, larger", 0.2)
    refused["text"] = refused["text"].replace("looked", request)
    replies = [refused, *[verdict(True, "", 0.9)] * 8]
    graph = story(request, ["x"], SIZE, critic=json.dumps(replies), max_attempts=3)
    del graph["plan"], graph["report"], graph["board"], graph["out"]
    edits = "1. House\n   draw: a house\n   text: Alone.\n\n2. Tree\n   draw: add a tree\n   text: Later."
    graph["edit"] = node("InterleaveEditPlan", edits=edits, request=request)
    graph["loop"]["inputs"]["plan"] = ["edit", 0]
    return graph


def states(page: Any) -> list[str]:
    return page.locator(".itp-state").all_inner_texts()


def test_every_row_has_the_image_and_the_state_of_its_step(canvas: tuple[Any, str], tmp_path: Path) -> None:
    page, kind = canvas
    page.evaluate(LAID_OUT, edited(f"Rows {kind}"))
    page.wait_for_function("() => document.querySelectorAll('.itp-step').length === 2")
    if not page.locator(".it-card").count():  # a host that names no workflow recalls the node's last run
        assert states(page) == ["planned", "planned"] and page.locator(".itp-picture:visible").count() == 0
    ran(page)
    page.wait_for_function(
        "() => [...document.querySelectorAll('.itp-picture img')].every(one => one.naturalWidth > 0)"
    )
    assert states(page) == ["Accepted at attempt 2", "Accepted at attempt 1"]
    screenshot(page, f"plan-rows-{kind}", tmp_path)
    page.locator(".it-card-head").first.click()
    page.wait_for_timeout(500)
    assert page.locator(".it-attempt").count() == 2 and page.evaluate(COMPARED), "the comparison is cut off"
    screenshot(page, f"plan-rows-compared-{kind}", tmp_path)
    page.get_by_label("Step 1 in full size").first.click()
    page.locator(".it-lightbox[open]").wait_for()
    page.keyboard.press("Escape")
    first = page.locator(".itp-step").nth(0).locator("textarea").first
    first.click()
    first.press("End")
    first.type(", green")
    assert states(page) == ["changed since it was generated", "Accepted at attempt 1"]
    assert first.evaluate("one => document.activeElement === one"), "typing was interrupted"
    screenshot(page, f"plan-rows-changed-{kind}", tmp_path)
    # Reopened, the rows find the run again.
    page.evaluate("async () => await app.loadGraphData(app.graph.serialize())")
    page.wait_for_function("() => document.querySelectorAll('.itp-picture:not([hidden])').length === 2")


def test_a_mask_and_a_reference_are_uploaded_and_chosen(
    canvas: tuple[Any, str], host: ComfyServer, tmp_path: Path
) -> None:
    page, kind = canvas
    mask = Image.new("L", SIZE, 0)
    mask.paste(255, (0, 0, 96, 128))
    mask.save(tmp_path / f"left {kind}.png")
    fox = host.put_input(Image.new("RGB", (64, 64), "orange"), f"fox {kind}.png")
    page.evaluate(LAID_OUT, edited(f"Images {kind}"))
    page.wait_for_function("() => document.querySelectorAll('.itp-step').length === 2")
    second = page.locator(".itp-step").nth(1)
    second.get_by_label("Settings of this step").click()
    second.get_by_label("Mask", exact=True).locator("xpath=..").locator("input[type=file]").set_input_files(
        tmp_path / f"left {kind}.png"
    )
    page.wait_for_function("() => document.querySelectorAll('.itp-image:not([hidden])').length === 1")
    reference = second.get_by_label("Reference", exact=True)
    reference.focus()
    page.wait_for_function("() => document.querySelectorAll('#itp-step-images option').length > 1")
    offered = page.locator("#itp-step-images option").evaluate_all("all => all.map(one => one.value)")
    assert {fox, f"left {kind}.png"} <= set(offered)
    reference.fill("nowhere.png")
    page.locator(".itp-image-control .itp-wrong").wait_for()
    reference.fill(fox)
    page.wait_for_function("() => document.querySelectorAll('.itp-image:not([hidden])').length === 2")
    screenshot(page, f"plan-images-{kind}", tmp_path)
    edits = read_edits(page.evaluate(TEXT))
    assert edits is not None
    settings = edits.steps[1].step.settings
    assert settings.mask == StepImage(name=f"left {kind}.png") and settings.reference == StepImage(name=fox)
    ran(page)
    (folder,) = journals(host, f"images-{kind}")
    story = json.loads((folder / "trajectory.json").read_text(encoding="utf-8"))
    drawn = story["plan"]["steps"][1]["settings"]
    assert drawn["mask"]["name"] == f"left {kind}.png"
    assert (folder / "pictures" / f"{drawn['reference']['picture']}.png").exists()
    second.get_by_role("button", name="Remove it").first.click()
    assert "mask:" not in page.evaluate(TEXT)
