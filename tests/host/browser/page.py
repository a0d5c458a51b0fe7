"""Controls the front end in a browser: opens and runs graphs, reads values, takes screenshots."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..graphs.template_names import FILE_NAMES
from ..server.comfy_server import ComfyServer

AT_START = ("Failed to load resource", "ComfyApp graph accessed before initialization")
READY = (
    "window.app && app.vueAppReady && app.canvas?.graph"
    " && Object.keys(LiteGraph.registered_node_types).length > 100"
    " && 'InterleaveCriticLoop' in LiteGraph.registered_node_types"
)
WORKFLOW_READY = """window.app && app.vueAppReady && app.graph && 'InterleaveCriticLoop' in
    LiteGraph.registered_node_types
  && app.extensionManager?.workflow?.activeWorkflow"""
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
LOOP = "app.graph._nodes.find(node => node.type === 'InterleaveCriticLoop')"
CLOSE_UP = f"""() => {{
  const node = {LOOP}, scale = 1.1;
  app.canvas.ds.scale = scale;
  app.canvas.ds.offset[0] = 500 / scale - node.pos[0];
  app.canvas.ds.offset[1] = 110 / scale - node.pos[1];
  app.canvas.setDirty(true, true);
}}"""

TALL = f"""async () => {{
  const node = {LOOP};
  node.setSize([620, 900]);
  const place = (scale) => {{
    app.canvas.ds.scale = scale;
    app.canvas.ds.offset[0] = 420 / scale - node.pos[0];
    app.canvas.ds.offset[1] = 90 / scale - node.pos[1];
    app.canvas.setDirty(true, true);
    return new Promise(placed => setTimeout(placed, 500));
  }};
  await place(1);
  // Older front ends make a node higher than it was asked to be.
  const bottom = document.querySelector('.it-live').getBoundingClientRect().bottom;
  if (bottom > innerHeight - 20) await place((innerHeight - 110) / (bottom - 90));
}}"""
REOPENED = "async () => { const graph = app.graph.serialize(); await app.loadGraphData(graph) }"
"""Older front ends place an API graph's nodes in Nodes 2.0 only when it is loaded again."""
FINISHED = ".it-live[data-status=finished]"


@contextmanager
def front_end(browser: Any, host: ComfyServer) -> Iterator[Any]:
    """Load the front end.

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
    context.close()


def opened(page: Any, name: str) -> None:
    """Open an example graph from the templates."""
    page.evaluate(OPEN, FILE_NAMES[name])
    page.wait_for_timeout(500)
    assert page.locator(".p-dialog").count() == 0, page.locator(".p-dialog").first.inner_text()


def opened_graph(page: Any, graph: dict[str, Any]) -> None:
    """Open a graph in API form, its Critic Loop close up."""
    page.evaluate("async graph => await app.loadApiJson(graph, 'live')", graph)
    page.wait_for_function(f"() => {LOOP}")  # on a busy machine the graph comes later
    page.wait_for_timeout(300)
    page.evaluate(CLOSE_UP)


def ran(page: Any, settle_ms: int = 500) -> None:
    """Run the graph on the canvas to its end, and give the page time to show it."""
    kind, detail = page.evaluate(RUN)
    assert kind == "execution_success", json.dumps(detail)[:2000]
    page.wait_for_timeout(settle_ms)


def keeps_progress(page: Any) -> bool:
    """Return whether a node's progress line stays after the run: up to 1.49 it stays, in 1.58 it does not."""
    version = page.evaluate("() => window.__COMFYUI_FRONTEND_VERSION__ ?? '0.0'")
    return tuple(int(part) for part in version.split(".")[:2]) < (1, 58)


def setting(host: ComfyServer, name: str, value: Any) -> None:
    """Change a setting of the front end on the server."""
    host.post(f"/api/settings/{name}", value).raise_for_status()


def photographed(page: Any, name: str, folder: Path) -> None:
    """Fit the whole graph into view and take a screenshot."""
    page.evaluate(FIT)
    page.wait_for_timeout(800)
    screenshot(page, name, folder)


def screenshot(page: Any, name: str, folder: Path) -> None:
    """Take a screenshot and write it to `folder` or to the folder INTERLEAVE_SCREENSHOTS."""
    folder = Path(os.environ.get("INTERLEAVE_SCREENSHOTS") or folder)
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=folder / f"{name}.png")
