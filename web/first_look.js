// The first view of a graph: position and scale of a template, and the names of growing inputs.
//
// Newer front ends fit a template into the window, however small its text becomes, and name a growing input by its id. The
// template (`extra.ds`) and the pack's locales have better values, which are restored here.

import { app } from "../../scripts/app.js";

const READABLE = 8 / 14;
/** Below this scale the canvas shows no text: the front ends' limit is 8 pixels, and their text has 14. */
const OURS = /^Interleave/;

let own;

/** The view saved in a graph, if it has nodes of this pack. */
function ownView(graph) {
  const view = graph?.extra?.ds;
  const known = Number.isFinite(view?.scale) && view?.offset?.length === 2;
  return known && graph.nodes?.some((node) => OURS.test(node.type)) ? view : undefined;
}

/** Restore the graph's own view if the front end has scaled it too small to read. */
function openReadable() {
  const shown = app.canvas?.ds;
  if (!own || !shown || shown.scale >= READABLE || shown.scale >= own.scale) return;
  shown.scale = own.scale;
  [shown.offset[0], shown.offset[1]] = own.offset;
  app.canvas.setDirty?.(true, true);
}

/** Show the growing inputs of a node ("images.image0") by their names in the pack's locales. */
function showOwnNames(node) {
  if (!OURS.test(node?.comfyClass ?? "")) return;
  for (const input of node.inputs ?? []) {
    if (input.label && input.localized_name && input.name.endsWith(`.${input.label}`)) input.label = undefined;
  }
}

app.registerExtension({
  name: "InterleaveThinker.FirstLook",
  beforeConfigureGraph(graph) {
    own = ownView(graph);
  },
  afterConfigureGraph() {
    openReadable();
  },
  nodeCreated(node) {
    if (!OURS.test(node.comfyClass ?? "")) return;
    showOwnNames(node);
    const before = node.onConnectionsChange;
    node.onConnectionsChange = function (...values) {
      const result = before?.apply(this, values);
      requestAnimationFrame(() => showOwnNames(this));
      return result;
    };
  },
  loadedGraphNode(node) {
    showOwnNames(node);
  },
});
