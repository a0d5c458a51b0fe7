"""Files in a real browser: the button on Export, a dropped story, and the notice about a plan.

The screenshots are written to INTERLEAVE_SCREENSHOTS, to be looked at.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ..graphs.klein import Graph, node, story
from ..graphs.replies import reply
from .edit_plan_page import PLANNED
from .page import WORKFLOW_READY, photographed, ran, screenshot

SIZE = (64, 64)
PICTURES = {
    "GIF": ("image/gif", ".gif"),
    "WebP": ("image/webp", ".webp"),
    "contact sheet (PNG)": ("image/png", ".png"),
}
PAGE = "page (HTML)"
VIDEO = "video (MP4)"
LAID_OUT = """async graph => {
  await app.loadApiJson(graph, 'exports');
  let row = 0;
  for (const node of app.graph._nodes) {
    const place = node.type === 'InterleaveExport' ? row++ : -1;
    node.pos = place < 0 ? [-3000, 0] : place < 4 ? [place * 380, 0] : [0, 600];
    if (place >= 0) node.setSize([350, 320]);
  }
  await app.loadGraphData(app.graph.serialize());
  app.canvas.ds.scale = 0.75;
  app.canvas.ds.offset[0] = 200;
  app.canvas.ds.offset[1] = 200;
  app.canvas.setDirty(true, true);
}"""
EXPORTS = """() => app.graph._nodes.filter(node => node.type === 'InterleaveExport').map(node => {
  const button = node.widgets.find(widget => widget.name === 'interleave_open');
  const [left, top] = node.pos;
  const [x, y] = app.canvas.ds.convertOffsetToCanvas([left + 120, top + (button?.last_y ?? 0) + 8]);
  const format = node.widgets.find(widget => widget.name === 'format').value;
  return [format, button && {label: button.label, address: button.address, x, y}];
})"""
DROP = """async ([address, name, type]) => {
  app.graph.clear();
  const content = await (await fetch(address)).blob();
  const data = new DataTransfer();
  data.items.add(new File([content], name, {type}));
  const options = {bubbles: true, cancelable: true, dataTransfer: data, clientX: 700, clientY: 500};
  const canvas = document.querySelector('#graph-canvas') ?? document.querySelector('canvas');
  for (const kind of ['dragenter', 'dragover', 'drop']) canvas.dispatchEvent(new DragEvent(kind, options));
}"""
SHOWN = """() => {
  const nodes = app.graph._nodes.filter(node => node.type === 'InterleaveExport');
  const drawn = node => document.querySelector(`[data-node-id="${node.id}"]`) ?? {querySelectorAll: () => []};
  const loaded = node => [...(node.imgs ?? []), ...drawn(node).querySelectorAll('img')]
    .some(image => image.naturalWidth > 64);
  return nodes.filter(loaded).map(node => node.widgets.find(widget => widget.name === 'format').value);
}"""
PLAYS = """() => [...document.querySelectorAll('video')]
  .some(one => one.currentSrc.includes('.mp4') && one.videoWidth > 64)"""
HAS_STORY = "() => app.graph._nodes.filter(node => node.type === 'InterleaveExport').length === 5"
COUNTED = """() => {
  const planner = app.graph._nodes.find(node => node.type === 'InterleavePlanner');
  planner.widgets.find(widget => widget.name === 'step_count').value = 3;
}"""


@pytest.fixture
def exported(canvas: tuple[Any, str]) -> tuple[Any, str]:
    """A page with a story that was exported in five formats, in one of the two ways to show nodes."""
    page, how = canvas
    page.evaluate(LAID_OUT, exporting(f"Exports {how}"))
    ran(page)
    return page, how


def exporting(request: str) -> Graph:
    graph = story(request, ["a house", "a tree"], SIZE)
    del graph["report"], graph["board"], graph["out"]
    for number, format in enumerate([*PICTURES, PAGE, VIDEO]):
        graph[f"export{number}"] = node(
            "InterleaveExport", trajectory=["loop", 2], format=format, filename_prefix="shown/story",
            seconds=1.0, attempts=False,
        )  # fmt: skip
    return graph


def test_a_button_opens_the_export(exported: tuple[Any, str], tmp_path: Path) -> None:
    page, kind = exported
    buttons = dict(page.evaluate(EXPORTS))
    assert {format: one["label"] for format, one in buttons.items()} == {
        **dict.fromkeys(PICTURES, "Open"),
        PAGE: "Download",
        VIDEO: "Open",
    }
    page.wait_for_function(f"() => ({SHOWN})().length === {len(PICTURES)}")
    assert page.evaluate(SHOWN) == [*PICTURES]
    page.wait_for_function(PLAYS)
    screenshot(page, f"exports-{kind}", tmp_path)
    for format, (media_type, _) in PICTURES.items():
        place = buttons[format]
        with page.context.expect_page() as opening:
            page.mouse.click(*(place["x"], place["y"])) if kind == "canvas" else clicked(page, format)
        opened = opening.value
        opened.wait_for_load_state()
        assert opened.url.endswith(place["address"].removeprefix("/api")) or place["address"] in opened.url
        assert opened.evaluate("() => document.contentType") == media_type
        opened.close()
    answer = fetched(page, buttons[VIDEO]["address"])
    assert answer.ok and answer.headers["content-type"] == "video/mp4"
    answer = fetched(page, buttons[PAGE]["address"])
    # A page from elsewhere never runs as one of the host's own.
    assert answer.ok and "text/html" not in answer.headers["content-type"]
    saved = page.evaluate("() => JSON.stringify(app.graph.serialize())")
    assert "interleave_open" not in saved, "the button is saved"


def fetched(page: Any, address: str) -> Any:
    return page.request.get(page.evaluate("one => new URL(one, location).href", address))


def clicked(page: Any, format: str) -> None:
    """Press the button on the node of this format."""
    number = [*PICTURES, PAGE].index(format)
    nodes = (
        page.locator(".lg-node")
        .filter(has_text="filename_prefix")
        .or_(page.locator(".lg-node").filter(has_text="filename prefix"))
    )
    nodes.nth(number).get_by_role("button", name="Open", exact=True).click()


def test_a_dropped_file_opens_its_graph(exported: tuple[Any, str]) -> None:
    page, _ = exported
    buttons = dict(page.evaluate(EXPORTS))
    for format, (media_type, ending) in PICTURES.items():
        page.evaluate(DROP, [buttons[format]["address"], f"story{ending}", media_type])
        page.wait_for_function(HAS_STORY, timeout=20_000)
        prompts = page.evaluate("() => JSON.stringify(app.graph.serialize())")
        assert "a house" in prompts and "InterleaveCriticLoop" in prompts, format


def test_a_plan_of_another_length_shows_one_notice(page: Any, tmp_path: Path) -> None:
    page.wait_for_function(WORKFLOW_READY)  # the front end's first graph would come over this one
    replies = [reply("a", "b", thought="a notice"), reply("a", thought="a notice")]
    page.evaluate(PLANNED, [json.dumps(replies), "told in a notice"])
    page.evaluate(COUNTED)
    ran(page)
    # The node's own line, where it stays, begins otherwise.
    notice = page.get_by_text(re.compile("^3 steps were requested, but the planner wrote 2 and then 1"))
    notice.wait_for()
    photographed(page, "notice-of-a-plan", tmp_path)
    notice.locator("xpath=ancestor::*[.//button][1]").get_by_role("button").first.click()
    notice.wait_for(state="detached")
    ran(page, settle_ms=1500)
    assert notice.count() == 0, "a cached result shows it again"
