"""Controls the front end in a browser: opens and runs graphs, reads values, takes screenshots."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..graphs.stories import Graph
from ..graphs.template_names import FILE_NAMES
from ..server.comfy_server import ComfyServer

AT_START = ("Failed to load resource", "ComfyApp graph accessed before initialization")
READY = (
    "window.app && app.vueAppReady && app.canvas?.graph"
    " && Object.keys(LiteGraph.registered_node_types).length > 100"
    " && 'InterleaveCriticLoop' in LiteGraph.registered_node_types"
    " && app.extensionManager?.workflow?.activeWorkflow"
)
"""The front end's first graph is there: it would come over one that a test opens before."""
OPEN = """async name => {
  const answer = await fetch(`/api/workflow_templates/interleave-thinker/${name}.json`);
  await app.loadGraphData(await answer.json(), true, true, name, {openSource: 'template'});
}"""
RUN = """async () => {
  const ended = new Promise(resolve => {
    for (const kind of ['execution_success', 'execution_error', 'execution_interrupted'])
      app.api.addEventListener(kind, event => resolve([kind, event.detail]), {once: true});
  });
  await app.queuePrompt(0, 1);
  const late = new Promise(resolve => setTimeout(() => resolve(["timeout", {}]), 120000));
  return await Promise.race([ended, late]);
}"""
STARTED = "() => { app.queuePrompt(0, 1) }"
FIT = """() => {
  const boxes = [...app.graph._nodes.map(node => node.boundingRect), ...app.graph._groups.map(one =>
    one._bounding)];
  const left = Math.min(...boxes.map(b => b[0])), top = Math.min(...boxes.map(b => b[1]));
  const right = Math.max(...boxes.map(b => b[0] + b[2])), bottom = Math.max(...boxes.map(b => b[1] + b[3]));
  const scale = Math.min((innerWidth - 140) / (right - left), (innerHeight - 150) / (bottom - top));
  app.canvas.ds.scale = scale;
  app.canvas.ds.offset[0] = 90 / scale - left;
  app.canvas.ds.offset[1] = 115 / scale - top;
  app.canvas.setDirty(true, true);
}"""
SET_LANGUAGE = "language => app.extensionManager.setting.set('Comfy.Locale', language)"
CLOSE_UP = """([type, x, y]) => {
  const node = app.graph._nodes.find(one => one.type === type), scale = 1.1;
  app.canvas.ds.scale = scale;
  app.canvas.ds.offset[0] = x / scale - node.pos[0];
  app.canvas.ds.offset[1] = y / scale - node.pos[1];
  app.canvas.setDirty(true, true);
}"""
LOOP, CLOSE = "InterleaveCriticLoop", "InterleaveTryClose"
NODE = "app.graph._nodes.find(node => node.type === '{}')"
TALL = """async () => {
  const node = app.graph._nodes.find(one => one.type === 'InterleaveCriticLoop');
  node.setSize([620, 900]);
  const place = (scale) => {
    app.canvas.ds.scale = scale;
    app.canvas.ds.offset[0] = 420 / scale - node.pos[0];
    app.canvas.ds.offset[1] = 90 / scale - node.pos[1];
    app.canvas.setDirty(true, true);
    return new Promise(placed => setTimeout(placed, 500));
  };
  await place(1);
  // Older front ends make a node higher than it was asked to be.
  const bottom = document.querySelector('.it-live').getBoundingClientRect().bottom;
  if (bottom > innerHeight - 20) await place((innerHeight - 110) / (bottom - 90));
}"""
REOPENED = "async () => { const graph = app.graph.serialize(); await app.loadGraphData(graph) }"
"""Older front ends place an API graph's nodes in Nodes 2.0 only when it is loaded again."""
FORGOTTEN = """async () => {
  const graph = app.graph.serialize();
  graph.id = crypto.randomUUID();
  await app.loadGraphData(graph);
}"""
LAID_OUT = """async ([graph, places, scale, x, y]) => {
  await app.loadApiJson(graph, 'laid out');
  for (const node of app.graph._nodes) {
    const index = places.findIndex(([type, name]) => node.type === type
      && (!name || node.widgets.some(widget => widget.value === name)));
    const [, , left, top, width, height] = places[index] ?? [0, 0, -4000, 0];
    node.pos = [left, top];
    if (width) node.setSize([width, height]);
    if (index >= 0) places.splice(index, 1);
  }
  // Where the front end lays nodes out itself, a node has its place only if it came into the graph with it.
  await app.loadGraphData(app.graph.serialize());
  app.canvas.ds.scale = scale;
  app.canvas.ds.offset[0] = x;
  app.canvas.ds.offset[1] = y;
  app.canvas.setDirty(true, true);
}"""
"""Shows nodes at their places (type, value of a widget, left, top, width, height), the others far away."""
INSIDE = """selector => {
  const inner = document.querySelector(selector).getBoundingClientRect();
  const node = document.querySelector(selector).closest('.lg-node')?.getBoundingClientRect();
  return node && inner.width > 50 && inner.height > 20 && inner.left >= node.left - 1
    && inner.right <= node.right + 1 && inner.top >= node.top - 1 && inner.bottom <= node.bottom + 1;
}"""
FINISHED = ".it-live[data-status=finished]"
PLANNED = """([replies, request]) => {
  app.graph.clear();
  const put = (type, x, y, values) => {
    const node = LiteGraph.createNode(type);
    // In Nodes 2.0 a node has its place only if it had it when it came into the graph.
    node.pos = [x, y];
    app.graph.add(node);
    node.pos = [x, y];
    node.widgets?.forEach(widget => { if (widget.name in values) widget.value = values[widget.name]; });
    return node;
  };
  const agent = put('InterleaveTestAgent', 0, 0, {replies});
  const planner = put('InterleavePlanner', 460, 0, {request});
  const edit = put('InterleaveEditPlan', 920, 0, {});
  agent.connect(0, planner, planner.inputs.findIndex(input => input.name === 'agent'));
  planner.connect(0, edit, edit.inputs.findIndex(input => input.name === 'plan'));
}"""
WIDGET = (
    "app.graph._nodes.find(node => node.type === 'InterleaveEditPlan').widgets.find(w => w.name === 'edits')"
)
TEXT, SET_TEXT = f"() => {WIDGET}.value", f"text => {{ {WIDGET}.value = text }}"


@contextmanager
def front_end(browser: Any, host: ComfyServer, name: str = "") -> Iterator[Any]:
    """Load the front end; at the end, take a screenshot with this name.

    Requests to other servers fail and are kept in `page.outside`, errors of the console in `page.faults`.
    """
    context = browser.new_context(viewport={"width": 1920, "height": 1080})
    page = context.new_page()
    page.set_default_timeout(90_000)
    page.outside, page.faults = [], []

    def note_outside(request: Any) -> None:
        if not request.url.startswith((host.url, "data:", "blob:")):
            page.outside.append(request.url)

    page.on("request", note_outside)
    page.on("dialog", lambda dialog: dialog.accept())

    def note(said: Any) -> None:
        # Requests of the front end that fail during its start do not concern the pack.
        start = said.text.startswith(AT_START) and "interleave" not in said.location.get("url", "")
        lost = said.type == "warning" and "ubgraph not found" in said.text
        if lost or (said.type == "error" and not start):
            page.faults.append(said.text)

    page.on("pageerror", lambda error: page.faults.append(f"{error}"))
    page.on("console", note)
    page.goto(host.url, wait_until="domcontentloaded")
    page.wait_for_function(READY, timeout=60_000)
    yield page
    if name:
        screenshot(page, name)
    context.close()


def clean(page: Any) -> bool:
    """Whether the page has asked no other server and has reported no error."""
    assert page.outside == [] and page.faults == [], (page.outside, page.faults)
    return True


def opened(page: Any, name: str) -> None:
    """Open an example graph from the templates."""
    page.evaluate(OPEN, FILE_NAMES[name])
    page.wait_for_timeout(500)
    assert page.locator(".p-dialog").count() == 0, page.locator(".p-dialog").first.inner_text()


STORIES_TAB = '.interleave-stories-tab-button, .side-bar-button:has-text("Stories")'
"""The button of the tab Stories; front ends from 1.58 on do not give it a class of its own."""


def opened_graph(page: Any, graph: Graph, how: str = "", kind: str = LOOP) -> None:
    """Open a graph in API form, its loop close up; `how` is "vue" with Nodes 2.0."""
    page.evaluate("async graph => await app.loadApiJson(graph, 'live')", graph)
    page.wait_for_function(f"() => {NODE.format(kind)}")  # on a busy machine the graph comes later
    page.wait_for_timeout(300)
    if how == "vue":
        page.evaluate(REOPENED)
    close_up(page, kind)


def close_up(page: Any, kind: str = LOOP, left: int = 500, top: int = 110) -> None:
    """Show a node of this type close up."""
    page.evaluate(CLOSE_UP, [kind, left, top])


def ran(page: Any, until: str = "", settle_ms: int = 500) -> None:
    """Run the graph on the canvas to its end, and give the page time to show it."""
    kind, detail = page.evaluate(RUN)
    assert kind == "execution_success", json.dumps(detail)[:2000]
    if until:
        page.wait_for_selector(until)
    page.wait_for_timeout(settle_ms)


def sent(page: Any) -> Graph:
    """The graph in API form, as the page sends it."""
    return page.evaluate("async () => (await app.graphToPrompt()).output")


def wait_for_count(page: Any, selector: str, count: int) -> None:
    """Wait until the page has this many elements."""
    page.wait_for_function(f"() => document.querySelectorAll(`{selector}`).length === {count}")


def keeps_progress(page: Any) -> bool:
    """Return whether a node's progress line stays after the run: up to 1.49 it stays, in 1.58 it does not."""
    return version(page) < (1, 58)


def version(page: Any) -> tuple[int, ...]:
    """The front end's version."""
    return tuple(page.evaluate("() => window.__COMFYUI_FRONTEND_VERSION__.split('.').map(Number)")[:2])


def setting(host: ComfyServer, name: str, value: Any) -> None:
    """Change a setting of the front end on the server."""
    host.post(f"/api/settings/{name}", value).raise_for_status()


def fitted(page: Any, name: str = "") -> None:
    """Fit the whole graph into view."""
    page.evaluate(FIT)
    page.wait_for_timeout(800)
    if name:
        screenshot(page, name)


def screenshot(page: Any, name: str) -> None:
    """Take a screenshot, to be looked at, if there is a folder INTERLEAVE_SCREENSHOTS."""
    if folder := os.environ.get("INTERLEAVE_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=Path(folder) / f"{name}.png")
