"""The cast in Edit Plan: its table and who is in each step, on both canvases, in English and Chinese.

The screenshots are written to INTERLEAVE_SCREENSHOTS, to be looked at.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from interleave_thinker.backend.story.plan_editor.merge import read_edits

from ..graphs.cast import with_cast
from ..graphs.klein import Graph, node, story
from ..server.comfy_server import ComfyServer
from ..server.runs import journals
from .edit_plan_page import SET_TEXT, TEXT
from .page import ran, screenshot

LAID_OUT = """async graph => {
  await app.loadApiJson(graph, 'cast');
  const at = {photo: [-820, 0], mia: [-440, 0], lantern: [-440, 420], edit: [0, 0]};
  const nodes = app.graph._nodes;
  for (const node of nodes) node.pos = [-4000, 0];
  const find = type => nodes.filter(node => node.type === type);
  const [edit] = find('InterleaveEditPlan');
  edit.pos = at.edit; edit.setSize([560, 820]);
  for (const cast of find('InterleaveCast')) {
    const name = cast.widgets.find(widget => widget.name === 'name').value;
    cast.pos = name === 'Mia' ? at.mia : at.lantern;
    cast.setSize([380, 360]);
  }
  find('LoadImage')[0].pos = at.photo;
  await app.loadGraphData(app.graph.serialize());
  app.canvas.ds.scale = 0.8;
  app.canvas.ds.offset[0] = 920;
  app.canvas.ds.offset[1] = 130;
  app.canvas.setDirty(true, true);
}"""
RENAME = """([old, name]) => {
  const node = app.graph._nodes.find(node => node.type === 'InterleaveCast'
    && node.widgets.find(widget => widget.name === 'name').value === old);
  const widget = node.widgets.find(widget => widget.name === 'name');
  widget.value = name;
  widget.callback?.(name);
}"""
BYPASS = """async name => {
  const node = app.graph._nodes.find(node => node.type === 'InterleaveCast'
    && node.widgets.find(widget => widget.name === 'name').value === name);
  node.mode = 4;
  node.onConnectionsChange?.();
  await new Promise(resolve => setTimeout(resolve, 500));
}"""
KINDS = """() => app.graph._nodes.filter(node => node.type === 'InterleaveCast')
  .map(node => node.widgets.find(widget => widget.name === 'kind')._displayValue)"""
HOSTILE = '<img src=x onerror="window.hacked = 1">'
EDITS = """1. Evening
   draw: Mia looks out of the window

2. On the way
   draw: she walks to the mill

3. Night
   draw: the empty mill without Mia, a picture of her on the wall"""


def portrait() -> Image.Image:
    image = Image.new("RGB", (160, 200), "#f3d9c0")
    ImageDraw.Draw(image).ellipse((40, 50, 120, 150), fill="#c0402f")
    return image


def connected(request: str, photo: str) -> Graph:
    """Return a story written by hand whose cast is two chained nodes."""
    graph = story(request, ["x"], (64, 64))
    del graph["plan"], graph["report"], graph["board"], graph["out"]
    for name in ("model", "clip", "vae"):
        del graph[name]
    graph["generator"] = node("InterleaveTinyWorldGenerator")
    graph["edit"] = node("InterleaveEditPlan", edits=EDITS, request=request)
    graph["loop"]["inputs"]["plan"] = ["edit", 0]
    return with_cast(graph, photo)


def present(page: Any) -> list[list[str]]:
    """Return the members that the buttons of each step show as present."""
    return page.evaluate(
        "() => [...document.querySelectorAll('.itp-step')].map(step => "
        "[...step.querySelectorAll('.itp-chip[aria-pressed=true]')].map(one => one.textContent))"
    )


def wait_for(page: Any, expected: list[list[str]]) -> None:
    """Wait until the server has found who is in each step."""
    page.wait_for_function(
        "wanted => JSON.stringify([...document.querySelectorAll('.itp-step')].map(step => "
        "[...step.querySelectorAll('.itp-chip[aria-pressed=true]')].map(one => one.textContent))) === wanted",
        arg=json.dumps(expected, separators=(",", ":"), ensure_ascii=False),
    )


def table(page: Any) -> list[str]:
    return page.locator(".itp-member").evaluate_all(
        "rows => rows.map(row => [...row.querySelectorAll('[role=cell]')]"
        ".map(one => one.textContent).join(' | '))"
    )


def test_the_cast_is_shown_and_chosen_for_each_step(
    canvas: tuple[Any, str], host: ComfyServer, tmp_path: Path
) -> None:
    page, kind = canvas
    photo = host.put_input(portrait(), f"mia {kind}.png")
    page.evaluate(LAID_OUT, connected(f"Cast {kind}", photo))
    page.wait_for_function("() => document.querySelectorAll('.itp-step').length === 3")
    assert table(page) == [
        "Mia | character | girl of seven, short black hair, red coat",
        "lantern | prop | brass",
    ]
    page.wait_for_function("() => document.querySelector('img.itp-member-image')?.naturalWidth > 0")
    wait_for(page, [["Mia"], [], []])
    assert page.locator(".itp-chip.itp-proposed").all_inner_texts() == ["Mia"], "found, not listed"
    screenshot(page, f"cast-found-{kind}", tmp_path)
    second = page.locator(".itp-step").nth(1)
    for name in ("Mia", "lantern"):
        second.get_by_role("button", name=name, exact=True).click()
    first = page.locator(".itp-step").nth(0)
    first.get_by_role("button", name="Mia", exact=True).click()
    assert present(page) == [[], ["Mia", "lantern"], []]
    edits = read_edits(page.evaluate(TEXT))
    assert edits is not None
    assert [one.step.cast for one in edits.steps] == [(), ("Mia", "lantern"), None]
    screenshot(page, f"cast-{kind}", tmp_path)
    first.get_by_role("button", name="Members that the prompt names").click()
    assert present(page)[0] == ["Mia"]
    third = page.locator(".itp-step").nth(2)
    third.locator("textarea").first.fill("@lantern in front of the mill, and Mia")
    wait_for(page, [["Mia"], ["Mia", "lantern"], ["lantern"]])
    assert not third.locator(".itp-proposed").count(), "a mark is a list"
    third.locator("textarea").first.fill("the empty mill without Mia")
    wait_for(page, [["Mia"], ["Mia", "lantern"], []])
    page.wait_for_timeout(600)
    assert not page.locator(".itp-fault").count(), "the server accepts names of the connected cast"
    ran(page)
    page.wait_for_timeout(600)
    page.evaluate("() => { document.querySelector('.itp-chip').dataset.built = 'before' }")
    ran(page)
    assert page.locator(".itp-chip").first.get_attribute("data-built"), "a run does not replace the buttons"
    (folder,) = journals(host, f"cast-{kind}")
    results = json.loads((folder / "trajectory.json").read_text(encoding="utf-8"))["results"]
    told = [one["attempts"][0].get("cast", {}).get("text", "") for one in results]
    assert told == [
        "Mia: girl of seven, short black hair, red coat. Mia appears exactly once.",
        "Mia: girl of seven, short black hair, red coat. lantern: brass. Exactly 1 character: Mia.",
        "",
    ]
    page.evaluate(RENAME, ["Mia", "Ida"])
    page.wait_for_function("() => document.querySelector('.itp-member-name')?.textContent === 'Ida'")
    assert present(page) == [[], ["lantern", "Mia"], []]
    assert second.locator(".itp-chip.itp-wrong").inner_text() == "Mia", "no member has this name now"


def test_a_changed_cast_is_checked_again(canvas: tuple[Any, str], host: ComfyServer) -> None:
    page, kind = canvas
    photo = host.put_input(portrait(), f"mia checked {kind}.png")
    page.evaluate(LAID_OUT, connected(f"Cast checked {kind}", photo))
    page.wait_for_function("() => document.querySelectorAll('.itp-step').length === 3")
    page.evaluate(RENAME, ["Mia", "Mia, Tom"])
    fault = page.locator(".itp-fault")
    fault.wait_for()
    assert fault.inner_text().startswith("The cast, member 'Mia, Tom', name: a name is one line of text")
    page.evaluate(RENAME, ["Mia, Tom", "Mia"])
    fault.wait_for(state="detached")
    assert len(table(page)) == 2
    wait_for(page, [["Mia"], [], []])
    page.evaluate(RENAME, ["Mia", HOSTILE])
    page.wait_for_function(
        "name => document.querySelector('.itp-member-name')?.textContent === name", arg=HOSTILE
    )
    assert page.locator(".itp-chip").first.inner_text() == HOSTILE
    assert page.evaluate("() => window.hacked") is None, "a name is text, never markup"
    page.evaluate(RENAME, [HOSTILE, "Mia"])
    page.evaluate(BYPASS, "lantern")
    assert [row.split(" | ")[0] for row in table(page)] == ["Mia"], "a bypassed node adds no member"
    page.evaluate(BYPASS, "Mia")
    page.wait_for_function("() => document.querySelectorAll('.itp-member').length === 0")


def test_the_cast_of_the_text_is_in_the_table_too(canvas: tuple[Any, str], host: ComfyServer) -> None:
    page, kind = canvas
    photo = host.put_input(portrait(), f"ida {kind}.png")
    page.evaluate(LAID_OUT, connected(f"Cast of both {kind}", photo))
    page.wait_for_function("() => document.querySelectorAll('.itp-step').length === 3")
    own = f"character: mia\n   trait: blue hat\n\nplace: mill\n   image: {photo}\n\n{EDITS}"
    page.evaluate(SET_TEXT, own)
    page.wait_for_function("() => document.querySelectorAll('.itp-member').length === 3")
    assert table(page) == ["mia | character | blue hat", "lantern | prop | brass", "mill | place | "]
    wait_for(page, [["mia"], ["mill"], ["mill"]])
    page.locator(".itp-step").nth(2).get_by_role("button", name="lantern", exact=True).click()
    edits = read_edits(page.evaluate(TEXT))
    assert edits is not None and [member.name for member in edits.cast] == ["mia", "mill"]
    assert edits.steps[2].step.cast == ("mill", "lantern")
