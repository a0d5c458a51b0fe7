// Folds the widgets of the pack's nodes that few people change, behind one row at the end: "more..." and "less".
//
// Nodes 2.0 does this itself with what a node declares as advanced. The canvas ignores it, so the widgets are hidden here; both
// share the node's `showAdvanced`, which workflows keep. A hidden widget keeps its place among the saved values. It is shown
// while it is connected or has another value than a new node, so nothing that was changed is out of sight.

import { app } from "../../scripts/app.js";
import { alwaysShowsAll, isOutputClass, laysOutNodes, redraw } from "./host.js";
import { say } from "./words.js";

const OURS = /^Interleave/;
const ROW = "interleave_more";
const CUSTOM = "custom";
/** Inputs of older workflows, which other inputs replace: out of sight unless they have a value. */
const REPLACED = {
  InterleaveLoadAgent: ["strictness"],
  InterleaveRemoteAgent: ["strictness"],
  InterleaveCriticLoop: ["on_failure"],
};

/** Widths of new nodes, in which titles and paths are not cut. */
const WIDTH = 220;
const WIDTHS = { InterleaveSaveTrajectory: 400, InterleaveLoadTrajectory: 460 };

function widgetOf(node, name) {
  return node.widgets?.find((widget) => widget.name === name);
}

function isConnected(node, widget) {
  return Boolean(node.inputs?.some((input) => input.widget?.name === widget.name && input.link != null));
}

/** What hides a widget: "folded" until the row is clicked, "away" always, "" if it is shown. */
function reasonOf(node, widget, isChanged) {
  if (isConnected(node, widget)) return "";
  const strictness = widget.name === "accept_at" && widgetOf(node, "strictness");
  if (strictness) return strictness.value === CUSTOM ? "" : "away";
  if (isChanged()) return "";
  return REPLACED[node.comfyClass]?.includes(widget.name) ? "away" : "folded";
}

function fold(node) {
  const folded = (node.widgets ?? []).filter((widget) => widget.options?.advanced);
  if (!folded.length) return;
  // A widget that is shown for its value stays until the row is clicked: it must not vanish under the pointer.
  const kept = new Set();
  const allParts = [];
  for (const widget of folded) {
    const parts = [widget, ...(widget.linkedWidgets ?? [])];
    allParts.push(...parts);
    // Any seed is as good as another: what matters is whether it changes with every run.
    const telling = parts.at(-1);
    const usual = telling.value;
    const isChanged = () => {
      if (telling.value !== usual) kept.add(widget);
      return kept.has(widget);
    };
    const reason = () => reasonOf(node, widget, isChanged);
    const hidden = () => reason() === "away" || (reason() === "folded" && !node.showAdvanced && !alwaysShowsAll());
    for (const part of parts) hide(part, hidden);
    define(widget.options, "advanced", () => reason() === "folded");
    define(widget.options, "hidden", () => reason() === "away");
  }
  const row = node.addWidget("button", ROW, null, () => toggle(node, kept), { serialize: false, canvasOnly: true });
  row.serialize = false;
  for (const part of allParts) {
    // The input of a hidden widget is at the row: at its former place it would lie on that of another.
    let { y } = part;
    const set = (value) => (y = value);
    Object.defineProperty(part, "y", { get: () => (part.hidden ? row.y : y), set, enumerable: true, configurable: true });
  }
  define(row, "label", () => (node.showAdvanced ? say("less") : say("more...")));
  hide(row, () => laysOutNodes() || alwaysShowsAll() || !folded.some((widget) => widget.options.advanced));
  const strictness = widgetOf(node, "strictness");
  if (strictness) {
    const changed = strictness.callback;
    strictness.callback = function (...given) {
      const result = changed?.apply(this, given);
      // Nodes 2.0 reads what is hidden when the list of widgets changes.
      node.widgets = [...node.widgets];
      node.setSize([node.size[0], Math.max(node.size[1], node.computeSize()[1])]);
      fit(node);
      return result;
    };
  }
  fit(node);
}

/** Define a property that the front end reads and, here and there, sets. */
function define(object, name, get) {
  Object.defineProperty(object, name, { get, set: () => {}, enumerable: true, configurable: true });
}

/** Hide a widget while `isHidden()`. The canvas of newer front ends gives room by `visibility`, which does not follow `hidden`. */
function hide(widget, isHidden) {
  define(widget, "hidden", isHidden);
  if (!widget.visibility) return;
  const own = Object.getPrototypeOf(widget);
  define(widget, "visibility", () => {
    const { surfaces, suppression } = Reflect.get(own, "visibility", widget);
    return { surfaces: { ...surfaces, canvas: isHidden() ? "never" : "shown" }, suppression };
  });
}

/** Show or hide the folded widgets, and change the height by as much. */
function toggle(node, kept) {
  const before = node.computeSize()[1];
  kept.clear();
  node.showAdvanced = !node.showAdvanced;
  node.setSize([node.size[0], node.size[1] + node.computeSize()[1] - before]);
  redraw();
}

/** Take away the empty part of a node that has no widgets which grow with it, and no images of its results. */
function fit(node) {
  const grows = node.widgets.some((widget) => widget.computeLayoutSize && !widget.hidden);
  if (!grows && !isOutputClass(node.comfyClass)) node.setSize([node.size[0], node.computeSize()[1]]);
}

app.registerExtension({
  name: "InterleaveThinker.Fold",
  nodeCreated(node) {
    if (!OURS.test(node.comfyClass ?? "")) return;
    node.setSize([Math.max(node.size[0], WIDTHS[node.comfyClass] ?? WIDTH), node.size[1]]);
    fold(node);
  },
  loadedGraphNode(node) {
    if (OURS.test(node.comfyClass ?? "") && widgetOf(node, ROW)) fit(node);
  },
});
