"""An incomplete run in a real browser, one of two stories queued alone, and a cached run.

The screenshots are written to INTERLEAVE_SCREENSHOTS, to be looked at.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ..graphs.klein import Graph, node
from ..graphs.passing_runs import loop
from ..graphs.replies import verdict
from ..server.comfy_server import ComfyServer
from ..server.runs import journals
from .page import FINISHED, REOPENED, TALL, opened_graph, ran, screenshot

INCOMPLETE = ".it-live[data-status=incomplete]"
MISSING = "This story is not complete. Steps without an image: 2–3."
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


def titled(graph: Graph, name: str, title: str) -> Graph:
    return {**graph, name: {**graph[name], "_meta": {"title": title}}}


def both(name: str) -> Graph:
    """Two stories in one graph, each with a storyboard; the second has its own title."""
    first, second = loop(f"{name} first", replies=REFUSED), loop(f"{name} second", replies=REFUSED)

    def moved(value: Any) -> Any:
        return [f"{value[0]}2", value[1]] if isinstance(value, list) and len(value) == 2 else value

    more = {
        f"{key}2": {**one, "inputs": {field: moved(value) for field, value in one["inputs"].items()}}
        for key, one in second.items()
    }
    return titled(first | more, "loop2", "second story")


def test_an_incomplete_run_lists_what_is_missing(
    canvas: tuple[Any, str], host: ComfyServer, tmp_path: Path
) -> None:
    page, how = canvas
    name = f"incomplete in {how}"
    opened_graph(page, loop(name, failures=2))
    if how == "vue":
        page.evaluate(REOPENED)
    ran(page)
    page.wait_for_selector(INCOMPLETE)
    page.evaluate(ASIDE)
    page.evaluate(TALL)
    notice = page.locator(".it-notice")
    assert MISSING in notice.inner_text()
    assert "3 steps · 2 steps not complete" in page.locator(".it-line").inner_text()
    page.get_by_text("Storyboard: This story is not complete.").first.wait_for()
    page.wait_for_timeout(500)
    screenshot(page, f"incomplete-{how}", tmp_path)
    notice.get_by_text("Run again").click()
    page.wait_for_selector(FINISHED)
    assert not notice.is_visible()
    (folder,) = journals(host, name)
    results = json.loads((folder / "trajectory.json").read_text(encoding="utf-8"))["results"]
    assert [one["stop_reason"] for one in results] == ["unjudged"] * 3
    screenshot(page, f"complete-{how}", tmp_path)
    assert page.faults == []


def test_one_of_two_stories_is_redrawn_alone(page: Any, host: ComfyServer) -> None:
    opened_graph(page, both("alone"))
    page.evaluate(RANDOM, "second story")
    page.evaluate(RANDOM, "Critic Loop")
    ran(page)
    page.wait_for_function(f"() => document.querySelectorAll('{FINISHED}').length === 2")
    (second,) = journals(host, "alone second")
    before = {path: path.stat().st_mtime_ns for path in second.rglob("*")}
    seeds = page.evaluate(SEEDS)
    assert 0 not in seeds.values(), "the next stories would be others"
    page.evaluate(EXECUTED)
    page.get_by_text("Redraw this step").first.click()
    page.wait_for_function("() => window.executed.includes('null')")
    page.wait_for_timeout(300)
    ran_nodes = page.evaluate("() => window.executed")
    assert {"loop", "board"} <= set(ran_nodes), ran_nodes
    assert not [one for one in ran_nodes if one.endswith("2")], "nothing of the second story"
    assert journals(host, "alone second") == [second]
    assert page.evaluate(SEEDS) == {**seeds, "Critic Loop": 0}, "the seed of the story that is redrawn"
    assert {path: path.stat().st_mtime_ns for path in second.rglob("*")} == before
    (first,) = journals(host, "alone first")
    results = json.loads((first / "trajectory.json").read_text(encoding="utf-8"))["results"]
    assert sorted(len(one["attempts"]) for one in results) == [1, 1, 2]


@pytest.mark.parametrize("kind", ["somebody else's", "subgraph"])
def test_a_run_is_shown_in_another_workflow(page: Any, host: ComfyServer, kind: str) -> None:
    name = f"from the cache for {kind.replace(' ', '-').replace(chr(39), '')}"
    graph = loop(name)
    graph["edit"] = node("InterleaveEditPlan", plan="@plan", edits="")
    graph["loop"]["inputs"]["plan"] = ["edit", 0]
    opened_graph(page, graph)
    ran(page)
    page.wait_for_selector(FINISHED)
    (folder,) = journals(host, name)
    before = {path: path.stat().st_mtime_ns for path in (folder / "attempts").iterdir()}
    page.evaluate(AS_OF_SOMEBODY_ELSE)
    page.wait_for_timeout(500)
    assert page.locator(FINISHED).count() == 0
    if kind == "subgraph":
        page.evaluate(INTO_A_SUBGRAPH)
    ran(page)
    if kind == "subgraph":
        assert page.evaluate(SHOWN_INSIDE) == folder.name
    else:
        page.wait_for_selector(FINISHED)
        assert page.locator(".it-card-image:not([hidden])").count() == 3
    page.wait_for_function("() => document.querySelectorAll('.itp-picture:not([hidden])').length === 3")
    assert {path: path.stat().st_mtime_ns for path in (folder / "attempts").iterdir()} == before
    assert page.faults == []
