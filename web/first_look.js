// What of a graph is seen and read at first: the view that a template opens at, and the names of inputs that grow.
//
// Decision: newer front ends fit a template into the window whole, however small its text becomes, and name an input that grows
// by its id. Both have better values already, in the template (`extra.ds`) and in the pack's locales; they are put back.

import { app } from "../../scripts/app.js";

const READABLE = 8 / 14;
/** Below this scale the canvas draws no text: the front ends' own limit is 8 pixels, and their text has 14. */
const OURS = /^Interleave/;

let own;

/** The view that a graph brings along, if it has nodes of this pack. */
function ownView(graph) {
  const view = graph?.extra?.ds;
  const known = Number.isFinite(view?.scale) && view?.offset?.length === 2;
  return known && graph.nodes?.some((node) => OURS.test(node.type)) ? view : undefined;
}

/** Go back to the graph's own view where the front end has fitted it into the window too small to be read. */
function openReadable() {
  const shown = app.canvas?.ds;
  if (!own || !shown || shown.scale >= READABLE || shown.scale >= own.scale) return;
  shown.scale = own.scale;
  [shown.offset[0], shown.offset[1]] = own.offset;
  app.canvas.setDirty?.(true, true);
}

/** Have the inputs of a node that grow ("images.image0") shown by their names in the pack's locales. */
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
