"""Stories that wait, are incomplete, are checked, or are found again, in a real browser."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from ..graphs.attempt_pairs import loop, paused
from ..graphs.stories import HAT, Graph, accepted, by_hand, changed, checked, finding, node, renamed, verdict
from ..server.comfy_server import ComfyServer
from ..server.runs import journal, journals, made, reasons, results, wait_until
from .page import (
    FINISHED,
    LOOP,
    NODE,
    READY,
    REOPENED,
    STARTED,
    STORIES_TAB,
    TALL,
    clean,
    opened,
    opened_graph,
    ran,
    screenshot,
    setting,
    wait_for_count,
)

WAITS = "() => document.querySelector('.it-notice')?.innerText.includes('Step {} waits for you')"


def without(graph: Graph, *keys: str) -> Graph:
    """The graph without these nodes, which would cover the buttons."""
    return {key: one for key, one in graph.items() if key not in keys}


def waiting(page: Any, graph: Graph, how: str = "") -> Any:
    """Run a story until its first step waits, and return the view's notice."""
    opened_graph(page, without(graph, "board", "report", "out"), how)
    ran(page)
    page.wait_for_function(WAITS.format(1))
    page.evaluate(TALL)
    return page.locator(".it-notice")


def pressed(page: Any, notice: Any, button: str, step: int) -> None:
    """Press a button, and wait until this step waits."""
    notice.get_by_text(button, exact=True).click()
    page.wait_for_function(WAITS.format(step))


# Stories that wait for the user


def test_a_story_is_directed_with_the_buttons(canvas: tuple[Any, str], host: ComfyServer) -> None:
    page, how = canvas
    request = f"directed in {how}"
    notice = waiting(page, paused(request, "every step"), how)
    folder = journal(host, request)
    assert reasons(folder) == ["accepted"] and "not complete" not in notice.inner_text()
    pressed(page, notice, "Approve", 2)
    assert reasons(folder) == ["picked", "accepted"]
    page.wait_for_timeout(500)
    assert "1 approved by hand" in page.locator(".it-line").inner_text()
    assert page.locator(".it-card-state").first.inner_text() == "Approved at attempt 1"
    notice.get_by_text("Skip step", exact=True).click()
    page.wait_for_selector(FINISHED)
    wait_until(host, lambda: reasons(folder) == ["picked", "skipped"])
    page.wait_for_timeout(500)
    assert not notice.is_visible()
    page.locator(".it-card-head").first.click()
    assert page.get_by_role("button", name="Approved", exact=True).is_visible()
    assert "picked" not in page.locator(".it-live").inner_text() and clean(page)


def test_a_waiting_story_is_redrawn_and_another_attempt_used(page: Any, host: ComfyServer) -> None:
    opened_graph(page, paused("directed otherwise", "every step"))
    ran(page)
    page.wait_for_function(WAITS.format(1))
    page.wait_for_timeout(500)
    assert page.locator(".p-toast-message").count() == 0, "a story that waits is not called incomplete"
    page.evaluate(TALL)
    folder = journal(host, "directed otherwise")
    page.get_by_text("Better prompt", exact=True).click()
    page.locator(".it-editor textarea").first.fill("a red house")
    page.get_by_text("Redraw with it").click()
    wait_for_count(page, ".it-attempt", 2)
    page.wait_for_function(WAITS.format(1))
    assert reasons(folder) == ["accepted"]
    page.locator(".it-attempt").first.locator("summary").click()
    page.locator(".it-attempt").first.get_by_text("Use this attempt").click()
    page.wait_for_function(WAITS.format(2))
    assert reasons(folder) == ["picked", "accepted"], "using another attempt continues the story"
    page.wait_for_timeout(500)
    assert page.locator(".it-card-state").first.inner_text() == "Attempt 1 picked by hand" and clean(page)


def test_a_decision_is_not_called_incomplete_while_the_story_is_queued(page: Any) -> None:
    notice = waiting(page, paused("directed while it is queued", "every step"))
    page.evaluate("() => { app.api.queuePrompt = () => new Promise(() => {}) }")
    notice.get_by_text("Approve", exact=True).click()
    notice.get_by_text("Queued: the story continues.").wait_for()
    assert notice.get_by_role("button").count() == 0 and page.faults == []


CENTER = """() => {
  const node = app.graph._nodes.find(one => one.type === 'InterleaveEditPlan'), { ds } = app.canvas;
  return [0, 1].map(axis => (node.pos[axis] + node.size[axis] / 2 + ds.offset[axis]) * ds.scale);
}"""
REWORDED = """text => {
  const node = app.graph._nodes.find(one => one.type === 'InterleaveEditPlan');
  const widget = node.widgets.find(one => one.name === 'edits');
  widget.value = widget.value.replace('a tree', text);
}"""


def test_the_rest_of_the_plan_is_edited_from_the_view(canvas: tuple[Any, str], host: ComfyServer) -> None:
    page, how = canvas
    request = f"edited at a pause in {how}"
    outline = "1. One\n   draw: a house\n\n2. Two\n   draw: a tree"
    plan = node("InterleaveEditPlan", edits=outline, request=request)
    notice = waiting(page, paused(request, "every step") | {"plan": plan}, how)
    notice.get_by_text("Edit plan", exact=True).click()
    page.wait_for_timeout(500)
    across, down = page.evaluate(CENTER)
    assert 500 < across < 1100 and 300 < down < 700, "in the middle of 1600 x 1000 pixels"
    page.evaluate(REWORDED, "a tall tree")
    page.evaluate(TALL)
    pressed(page, notice, "Approve", 2)
    assert reasons(journal(host, request)) == ["picked", "accepted"]
    assert [one["step"]["prompt"] for one in results(journal(host, request))] == ["a house", "a tall tree"]
    assert clean(page)


# Incomplete stories, and one of two

INCOMPLETE = ".it-live[data-status=incomplete]"
REFUSED = [verdict(False, "", 0.2)] * 20
RANDOM = """title => {
  const node = app.graph._nodes.find(one => one.title === title);
  // How the seed is to change is a widget of its own, named as the node has it at first.
  node.widgets.find(one => one.name === 'seed').linkedWidgets[0].value = 'randomize';
}"""
SEEDS = """() => Object.fromEntries(app.graph._nodes.filter(one => one.type === 'InterleaveCriticLoop')
  .map(one => [one.title, one.widgets.find(widget => widget.name === 'seed').value]))"""
AS_OF_SOMEBODY_ELSE = """async () => {
  const graph = app.graph.serialize();
  graph.id = crypto.randomUUID();
  for (const node of graph.nodes) delete node.properties.interleave_run;
  await app.loadGraphData(graph);
}"""
INTO_A_SUBGRAPH = """() => {
  const node = app.graph._nodes.find(one => one.type === 'InterleaveCriticLoop');
  app.graph.convertToSubgraph(new Set([node]));
}"""
USED_TWICE = """() => {
  const loop = app.graph._nodes.find(one => one.type === 'InterleaveCriticLoop');
  const { node } = app.graph.convertToSubgraph(new Set([loop]));
  const first = app.graph._nodes.find(one => one.id === node.id);
  const second = LiteGraph.createNode(first.type);
  app.graph.add(second);
  for (const [index, input] of first.inputs.entries()) {
    const link = app.graph.links.get?.(input.link) ?? app.graph.links[input.link];
    if (!link) continue;
    const origin = app.graph.getNodeById(link.origin_id);
    const other = app.graph._nodes.find(one => one.type === origin.type && one.id !== origin.id);
    (other ?? origin).connect(link.origin_slot, second, index);
  }
  window.uses = [first, second];
}"""
OPEN_USE = """place => {
  app.canvas.setGraph(app.graph.rootGraph ?? app.graph);
  const use = window.uses[place];
  app.canvas.openSubgraph(use.subgraph, use);
  const loop = use.subgraph.nodes.find(one => one.type === 'InterleaveCriticLoop');
  app.canvas.ds.scale = 0.8;
  app.canvas.ds.offset[0] = 600 - loop.pos[0];
  app.canvas.ds.offset[1] = 150 - loop.pos[1];
  app.canvas.setDirty(true, true);
}"""
SHOWN_INSIDE = """() => {
  const outer = app.graph._nodes.find(one => one.subgraph);
  const inner = outer.subgraph.nodes.find(one => one.type === 'InterleaveCriticLoop');
  return inner.properties.interleave_run ?? '';
}"""
ASIDE = """() => {
  const loop = app.graph._nodes.find(one => one.type === 'InterleaveCriticLoop');
  const others = app.graph._nodes.filter(one => one.pos[0] > loop.pos[0]);
  for (const one of others) one.pos = [one.pos[0] + 500, one.pos[1]];
}"""
"""Moves the nodes to the right aside, since the loop becomes wider."""
EXECUTED = """() => {
  window.executed = [];
  app.api.addEventListener('executing', ({detail}) => executed.push(String(detail?.node ?? detail)));
}"""


def test_an_incomplete_run_lists_what_is_missing(canvas: tuple[Any, str], host: ComfyServer) -> None:
    page, how = canvas
    name = f"incomplete in {how}"
    opened_graph(page, loop(name, failures=2), how)
    ran(page, INCOMPLETE)
    page.evaluate(ASIDE)
    page.evaluate(TALL)
    notice = page.locator(".it-notice")
    assert "This story is not complete. Steps without an image: 2–3." in notice.inner_text()
    assert "3 steps · 2 steps not complete" in page.locator(".it-line").inner_text()
    page.get_by_text("Storyboard: This story is not complete.").first.wait_for()
    notice.get_by_text("Run again").click()
    page.wait_for_selector(FINISHED)
    assert not notice.is_visible() and page.faults == []
    assert reasons(journal(host, name)) == ["unjudged"] * 3


def test_one_of_two_stories_is_redrawn_alone(page: Any, host: ComfyServer) -> None:
    second = renamed(loop("alone second", replies=REFUSED))
    second["loop2"]["_meta"] = {"title": "second story"}
    opened_graph(page, loop("alone first", replies=REFUSED) | second)
    page.evaluate(RANDOM, "second story")
    page.evaluate(RANDOM, "Critic Loop")
    ran(page)
    wait_for_count(page, FINISHED, 2)
    before, seeds = made(host, "alone second"), page.evaluate(SEEDS)
    assert 0 not in seeds.values(), "the next stories would be others"
    page.evaluate(EXECUTED)
    page.get_by_text("Redraw this step").first.click()
    page.wait_for_function("() => window.executed.includes('null')")
    page.wait_for_timeout(300)
    ran_nodes = page.evaluate("() => window.executed")
    assert {"loop", "board"} <= set(ran_nodes), ran_nodes
    assert not [one for one in ran_nodes if one.endswith("2")], "nothing of the second story"
    assert page.evaluate(SEEDS) == {**seeds, "Critic Loop": 0}, "the seed of the story that is redrawn"
    assert made(host, "alone second") == before and journal(host, "alone second")
    attempts = [len(one["attempts"]) for one in results(journal(host, "alone first"))]
    assert sorted(attempts) == [1, 1, 2]


@pytest.mark.parametrize("kind", ["workflow", "subgraph"])
def test_a_run_is_shown_in_another_workflow(page: Any, host: ComfyServer, kind: str) -> None:
    name = f"from the cache for another {kind}"
    opened_graph(page, by_hand(loop(name), ""))
    ran(page, FINISHED)
    before = made(host, name)
    page.evaluate(AS_OF_SOMEBODY_ELSE)
    page.wait_for_timeout(500)
    assert page.locator(FINISHED).count() == 0
    if kind == "subgraph":
        page.evaluate(INTO_A_SUBGRAPH)
        ran(page)
        assert page.evaluate(SHOWN_INSIDE) == journal(host, name).name
    else:
        ran(page, FINISHED)
        assert page.locator(".it-card-image:not([hidden])").count() == 3
    wait_for_count(page, ".itp-picture:not([hidden])", 3)
    assert made(host, name) == before and page.faults == []


def has_more(host: ComfyServer, request: str, before: dict[str, int]) -> bool:
    return before.items() < made(host, request, "attempts").items()


def test_each_use_of_a_subgraph_shows_and_changes_its_own_story(
    canvas: tuple[Any, str], host: ComfyServer
) -> None:
    page, how = canvas
    names = [f"use {number} in {how or 'canvas'}" for number in (1, 2)]
    others = without(renamed(loop(names[1])), "loop2", "after2", "out2", "board2")
    opened_graph(page, without(loop(names[0]), "after", "out", "board") | others, how)
    page.evaluate(USED_TWICE)
    ran(page)
    for use, name in enumerate(names):
        page.evaluate(OPEN_USE, use)
        page.wait_for_function(
            "run => document.querySelector('.it-card-image')?.src.includes(`run=${run}`)",
            arg=journal(host, name).name,
        )
        before = [made(host, one, "attempts") for one in names]
        page.get_by_text("Redraw this step").first.click()
        wait_until(host, partial(has_more, host, name, before[use]))
        page.wait_for_function("() => document.querySelector('.it-line').innerText.includes('4 images')")
        assert made(host, names[1 - use], "attempts") == before[1 - use], "only the open story has more"
        screenshot(page, f"use-{use}-{how}")
    assert clean(page)


def test_a_second_tab_follows_decisions_in_the_first(page: Any, host: ComfyServer) -> None:
    notice = waiting(page, paused("decided in two tabs", "every step"))
    workflow = page.evaluate("() => app.graph.serialize()")
    other = page.context.new_page()
    other.goto(host.url, wait_until="domcontentloaded")
    other.wait_for_function(READY)
    other.evaluate("async graph => await app.loadGraphData(graph)", workflow)
    other.wait_for_function(WAITS.format(1))
    pressed(page, notice, "Approve", 2)
    other.wait_for_function(WAITS.format(2))


# The story check


def test_the_view_shows_findings_and_the_step_that_is_generated_again(canvas: tuple[Any, str]) -> None:
    page, how = canvas
    graph = checked(f"checked in {how}", [*accepted(3), finding(2), *accepted(2)], size=(192, 128))
    graph = changed(without(graph, "board", "report", "out"), "critic", seconds_per_word=0.3)
    opened_graph(page, graph, how)
    page.evaluate(TALL)
    page.evaluate(STARTED)
    check = page.locator(".it-check")
    check.get_by_text("Step 2 is generated again, then the later steps that depend on it.").wait_for()
    page.wait_for_selector(FINISHED)
    check.get_by_text("Step 2 was generated again, with the later steps that depend on it.").wait_for()
    button = check.get_by_role("button")
    assert button.inner_text().split() == f"2. Step 2 Story check, identity, attempt 1: {HAT}".split()
    button.click()
    assert page.locator(".it-name").inner_text() == "2. Step 2"
    titles = page.locator(".it-attempt-title").all_inner_texts()
    assert titles == ["Attempt 1", "Attempt 2 · story check"]
    # Opened again it shows the same.
    page.evaluate(REOPENED)
    page.locator(".it-check").get_by_text(HAT).wait_for()
    assert clean(page)


def test_a_story_that_fits_says_so(page: Any) -> None:
    opened_graph(page, checked("checked in the browser and right", [*accepted(3), finding()]))
    ran(page, FINISHED)
    assert page.locator(".it-check").inner_text() == "Story check: every image fits the story."


# The side bar's list of stories

STORY = ".it-story"
ONLY_LOADED = """() => {
  for (const node of [...app.graph._nodes])
    if (!['InterleaveLoadTrajectory', 'InterleaveStoryboard'].includes(node.type)) app.graph.remove(node);
}"""


IN_TEMPLATE = """run => app.graph._nodes.find(node => node.type === 'InterleaveLoadTrajectory')
  ?.widgets.find(widget => widget.name === 'story').value === `output/interleave-thinker/${run}`"""


def test_a_story_is_found_loaded_and_deleted(page: Any, host: ComfyServer) -> None:
    for name in ("lighthouse keeper", "lighthouse cat"):
        opened_graph(page, loop(name))
        ran(page, FINISHED)
    page.evaluate("() => app.graph.clear()")
    page.locator(STORIES_TAB).first.click()
    page.wait_for_selector(STORY)
    page.get_by_placeholder("Search stories").fill("lighthouse")
    wait_for_count(page, STORY, 2)
    newest = page.locator(STORY).first
    assert "lighthouse cat" in newest.inner_text() and "3 steps" in newest.inner_text()
    page.wait_for_function(
        "() => [...document.querySelectorAll('.it-story img')].every(image => image.naturalWidth > 0)"
    )
    newest.get_by_text("Load", exact=True).click()
    page.evaluate(ONLY_LOADED)
    page.wait_for_timeout(500)
    ran(page)
    assert page.evaluate("() => app.graph._nodes.length") == 2
    opened(page, "moving_story")
    page.wait_for_function(IN_TEMPLATE, arg=journal(host, "lighthouse cat").name)
    newest.get_by_label("Delete this story").click()
    newest.get_by_text("Keep", exact=True).click()
    assert journal(host, "lighthouse cat").is_dir()
    newest.get_by_label("Delete this story").click()
    newest.get_by_text("Delete", exact=True).click()
    wait_for_count(page, STORY, 1)
    assert not journals(host, "lighthouse cat") and journals(host, "lighthouse keeper")
    assert page.faults == []


# The first minute: template 01

UNSEEN = """() => {
  window.heard = 0;
  document.hasFocus = () => false;
  window.AudioContext = class extends AudioContext { constructor() { super(); window.heard += 1 } };
}"""
SEEN = "() => { document.hasFocus = () => true; dispatchEvent(new Event('focus')) }"
SEED = f"seed => {{ {NODE.format(LOOP)}.widgets.find(one => one.name === 'seed').value = seed }}"


def test_the_first_story_is_listed_calls_and_becomes_a_film_and_a_book(
    canvas: tuple[Any, str], host: ComfyServer
) -> None:
    page, how = canvas
    page.set_viewport_size({"width": 1280, "height": 720})
    opened(page, "tiny_world_story")
    page.evaluate(UNSEEN)
    page.evaluate(SEED, 40 + len(how))
    ran(page, FINISHED)
    wait_for_count(page, ".itp-picture:not([hidden]) img[src]", 5)
    page.wait_for_function("() => document.title.startsWith('\u25cf ')")
    screenshot(page, f"first-story-{how}")
    page.evaluate(SEEN)
    assert page.evaluate("() => [heard, document.title.includes('\u25cf')]") == [1, False]
    for name, kind in (("film", b"ftyp"), ("book", b"%PDF")):
        page.get_by_role("button", name=name.title(), exact=True).click()
        page.get_by_role("button", name=f"Open the {name}").wait_for()
        *_, file = sorted((host.base / "output/interleave-thinker/export").glob(f"{name}_*"))
        assert kind in file.read_bytes()[:16]
    page.evaluate("() => app.extensionManager.setting.set('InterleaveThinker.Sound', false)")
    page.evaluate(UNSEEN)
    page.evaluate(SEED, 50 + len(how))
    ran(page, FINISHED)
    page.wait_for_function("() => document.title.startsWith('\u25cf ')")
    assert page.evaluate("() => heard") == 0 and clean(page)
    setting(host, "InterleaveThinker.Sound", True)
