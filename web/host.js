// What the pack uses of the front end that it promises to no extension, or only for a while: each in one function that does
// without it.
//
// Decision: it is looked for once, when the page starts. What is gone is named in one line of the console together with what is
// different now; everything else works.

import { app } from "../../scripts/app.js";
import { api } from "../../scripts/api.js";

const VUE_NODES = "Comfy.VueNodes.Enabled";
const LANGUAGE = "Comfy.Locale";
const CHANGES = ["increment", "increment-wrap", "decrement", "randomize"];

const said = new Set();

/** A setting of the front end; undefined if there is none of this name, or no way to read it. */
function setting(name) {
  return app.extensionManager?.setting?.get?.(name) ?? app.ui?.settings?.getSettingValue?.(name);
}

/** Say once what is missing and what is different without it. */
function missing(what, without) {
  if (said.has(what)) return;
  said.add(what);
  console.warn(`InterleaveThinker: this front end has no ${what}: ${without}.`);
}

/** The language that the front end is set to; English where it does not say. */
export function language() {
  return String(setting(LANGUAGE) ?? "en");
}

/** Whether the front end lays nodes out as elements of the page, beside a canvas that draws the wires alone. */
export function laysOutNodes() {
  return Boolean(globalThis.LiteGraph?.vueNodesMode ?? setting(VUE_NODES));
}

/** The graph that is not inside another. */
export function rootGraph() {
  return app.rootGraph ?? app.graph;
}

/** The graph in the form that is queued: nodes of all subgraphs by their execution ids. */
export async function flatGraph() {
  return (await app.graphToPrompt()).output;
}

/** Whether nodes of a class show or save something, so that they can be asked for. */
export function isOutputClass(name) {
  return Boolean(globalThis.LiteGraph?.registered_node_types?.[name]?.nodeData?.output_node);
}

/** The graph of a prompt that was queued, in its flat form; empty if the host does not know it any more. */
export async function queuedGraph(prompt) {
  const answer = await api.fetchApi(`/history/${encodeURIComponent(prompt)}`);
  const entry = answer.ok ? (await answer.json())[prompt] : undefined;
  return entry?.prompt?.[2] ?? {};
}

/** The widgets of a node whose values change with every run: [widget, the widget that says how]. */
export function changingWidgets(node) {
  const pairs = (node?.widgets ?? []).map((widget) => [widget, widget.linkedWidgets?.find((one) => CHANGES.includes(one.value))]);
  return pairs.filter(([, control]) => control);
}

/** All nodes of a graph and of the subgraphs in it. */
function allNodes(graph) {
  return (graph?.nodes ?? []).flatMap((node) => [node, ...allNodes(node.subgraph)]);
}

/**
 * Queue the graph once for these of its output nodes (execution ids) alone; false if the host did not take it. Seeds that
 * change with every run stay as they are: newer front ends change those of nodes that do not run, too.
 */
export async function queueOutputs(ids) {
  const controls = allNodes(rootGraph()).flatMap(changingWidgets).map(([, control]) => [control, control.value]);
  for (const [control] of controls) control.value = "fixed";
  try {
    // Front ends take the ids as they are; newer ones read them under a name, too.
    return (await app.queuePrompt(0, 1, Object.assign([...ids], { queueNodeIds: [...ids] }))) !== false;
  } finally {
    for (const [control, value] of controls) control.value = value;
  }
}

/** Leave out the images that the front end would show on a node by itself. */
export function showNoImages(node) {
  node.hideOutputImages = true;
  if (!node.onDrawBackground) missing("onDrawBackground", "images of a Critic Loop may be shown a second time below its view");
  node.onDrawBackground = () => {};
}

/** Have the graph zoomed by a wheel that was turned over one of our elements. */
export function zoom(event) {
  app.canvas?.processMouseWheel?.(event);
}

/** Show a warning over the graph for some seconds. */
export function warn(summary, detail) {
  const toast = app.extensionManager?.toast;
  if (toast?.add) toast.add({ severity: "warn", summary, detail, life: 12000 });
  else missing("extensionManager.toast", `warnings stand here alone: ${detail}`);
}

/** Hear of a file that is dropped on the graph before the front end does; `take` says whether it has dealt with it. */
export function onDroppedFile(take) {
  const before = app.handleFile;
  if (!before) return missing("handleFile", "a GIF of a story that is dropped on the graph does not open its workflow");
  app.handleFile = async function (file, ...values) {
    if (await take(file)) return undefined;
    return before.call(this, file, ...values);
  };
}

/** Have the canvas drawn again. */
export function redraw() {
  app.graph?.setDirtyCanvas?.(true, true);
}

/** Whether a node can hold elements of the page; says so once where it cannot. */
export function holdsElements(node) {
  if (!node.addDOMWidget) missing("addDOMWidget", "the nodes show what the front end itself shows, and plans are edited as text");
  return Boolean(node.addDOMWidget);
}

/** Have this pack's templates listed from first to last: the host names them in the order of the disk. */
function orderTemplates() {
  const list = api.getWorkflowTemplates;
  if (!list) return missing("getWorkflowTemplates", "the templates stand in the order in which the disk has them");
  const pack = decodeURIComponent(new URL(import.meta.url).pathname.split("/extensions/").pop().split("/")[0]);
  api.getWorkflowTemplates = async function (...given) {
    const packs = await list.apply(this, given);
    if (Array.isArray(packs?.[pack])) packs[pack].sort();
    return packs;
  };
}

app.registerExtension({
  name: "InterleaveThinker.Host",
  init() {
    orderTemplates();
  },
  setup() {
    if (setting(LANGUAGE) === undefined) missing("setting for the language", "everything is in English");
    if (globalThis.LiteGraph?.vueNodesMode === undefined && setting(VUE_NODES) === undefined)
      missing("vueNodesMode", "the preview of an image that is being drawn may be shown twice");
    if (!app.canvas?.processMouseWheel) missing("processMouseWheel", "the wheel zooms nothing over a list of steps");
  },
});
