"""Opens graphs with Attempt Start and Attempt End in a browser, Attempt End close up."""

from __future__ import annotations

from typing import Any

from ..graphs.klein import Graph

CLOSE = "app.graph._nodes.find(one => one.type === 'InterleaveTryClose')"
CLOSE_UP = f"""() => {{
  const node = {CLOSE}, scale = 1.1;
  app.canvas.ds.scale = scale;
  app.canvas.ds.offset[0] = 600 / scale - node.pos[0];
  app.canvas.ds.offset[1] = 120 / scale - node.pos[1];
  app.canvas.setDirty(true, true);
}}"""
APART = """async () => {
  const columns = [['agent', 'loader'], ['open'], ['paint'], ['tint', 'preview'], ['close'],
    ['out', 'attempts', 'text', 'accepted', 'final']];
  const graph = app.graph.serialize();
  columns.forEach((ids, column) => ids.forEach((id, row) => {
    const node = graph.nodes.find(one => String(one.id) === id);
    if (!node) return;
    node.pos = [column * 460 + (column > 4 ? 120 : 0), row * 330];
    if (id === 'close') node.size = [420, 720];
    if (['out', 'attempts'].includes(id)) node.size = [240, 260];
  }));
  // Where the front end lays nodes out itself, a node has its place only if it came into the graph with it.
  await app.loadGraphData(graph);
}"""


def opened(page: Any, graph: Graph) -> None:
    page.evaluate("async graph => await app.loadApiJson(graph, 'pair')", graph)
    page.evaluate(APART)
    page.wait_for_function(f"() => {CLOSE}")  # on a busy machine the graph comes later
    page.wait_for_timeout(500)
    page.evaluate(CLOSE_UP)
