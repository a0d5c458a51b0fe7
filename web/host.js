// Unofficial parts of the front end that the pack uses: each in one function that works without it.
//
// They are searched once, when the page starts. A missing part is named in one line of the console together with the effect;
// everything else works.

import { app } from "../../scripts/app.js";
import { api } from "../../scripts/api.js";

const VUE_NODES = "Comfy.VueNodes.Enabled";
const LANGUAGE = "Comfy.Locale";
const ADVANCED = "Comfy.Node.AlwaysShowAdvancedWidgets";
const CHANGES = ["increment", "increment-wrap", "decrement", "randomize"];

const said = new Set();

/** A setting of the front end; undefined if it does not exist or cannot be read. */
export function setting(name) {
  return app.extensionManager?.setting?.get?.(name) ?? app.ui?.settings?.getSettingValue?.(name);
}

/** Log once what is missing and what is different without it. */
function missing(what, without) {
  if (said.has(what)) return;
  said.add(what);
  console.warn(`InterleaveThinker: this front end does not have ${what}: ${without}.`);
}

/** The language of the front end; English if unknown. */
export function language() {
  return String(setting(LANGUAGE) ?? "en");
}

/** Whether the front end shows nodes as elements of the page, next to a canvas with the wires only. */
export function laysOutNodes() {
  return Boolean(globalThis.LiteGraph?.vueNodesMode ?? setting(VUE_NODES));
}

/** Whether the user wants to see the advanced widgets of all nodes. */
export function alwaysShowsAll() {
  return Boolean(setting(ADVANCED));
}

/** The graph that is not inside another one. */
export function rootGraph() {
  return app.rootGraph ?? app.graph;
}

/** The node with an execution id such as "7", or "75:62" inside a subgraph; undefined if this graph has none. */
export function nodeAt(path) {
  let graph = rootGraph();
  let node;
  for (const part of String(path).split(":")) {
    // Ids are numbers in a graph of the front end, and strings in one loaded from its API form.
    node = graph?.getNodeById?.(part) ?? graph?.getNodeById?.(Number(part));
    graph = node?.subgraph;
  }
  return node;
}

/** What the execution ids of a graph's nodes begin with: "" in the root graph, "12:" or "3:12:" in each use of a subgraph. */
export function prefixesOf(graph, within = rootGraph(), prefix = "") {
  if (graph === within) return [prefix];
  return (within?.nodes ?? []).flatMap((node) => (node.subgraph ? prefixesOf(graph, node.subgraph, `${prefix}${node.id}:`) : []));
}

// Several uses of a subgraph share its nodes, and the canvas does not tell which of them it shows.
const opened = new WeakMap();

/** The execution id of a node; in a subgraph that of the use which was opened last, else of the first one. */
export function pathOf(node) {
  const prefixes = prefixesOf(node.graph);
  const last = opened.get(node.graph);
  return `${prefixes.includes(last) ? last : (prefixes[0] ?? "")}${node.id}`;
}

/** Call `listener` whenever the canvas shows a use of a subgraph. */
export function onSubgraphOpened(listener) {
  app.canvas?.canvas?.addEventListener("subgraph-opened", ({ detail }) => {
    if (detail?.fromNode) opened.set(detail.subgraph, `${pathOf(detail.fromNode)}:`);
    listener();
  });
}

/** The graph in queued form: the nodes of all subgraphs by their execution ids. */
export async function flatGraph() {
  return (await app.graphToPrompt()).output;
}

/** Whether nodes of a class are output nodes. */
export function isOutputClass(name) {
  return Boolean(globalThis.LiteGraph?.registered_node_types?.[name]?.nodeData?.output_node);
}

/** The graph of a queued prompt, in flat form; empty if the host no longer has it. */
export async function queuedGraph(prompt) {
  const answer = await api.fetchApi(`/history/${encodeURIComponent(prompt)}`);
  const entry = answer.ok ? (await answer.json())[prompt] : undefined;
  return entry?.prompt?.[2] ?? {};
}

/** The widgets of a node whose values change with every run: [widget, the widget that controls it]. */
export function changingWidgets(node) {
  const pairs = (node?.widgets ?? []).map((widget) => [widget, widget.linkedWidgets?.find((one) => CHANGES.includes(one.value))]);
  return pairs.filter(([, control]) => control);
}

/** All nodes of a graph and of its subgraphs. */
function allNodes(graph) {
  return (graph?.nodes ?? []).flatMap((node) => [node, ...allNodes(node.subgraph)]);
}

/**
 * Queue the graph once for only these of its output nodes (execution ids); false if the host did not accept it. Seeds that
 * change with every run stay: newer front ends would change those of nodes that do not run, too.
 */
export async function queueOutputs(ids) {
  const controls = allNodes(rootGraph()).flatMap(changingWidgets).map(([, control]) => [control, control.value]);
  for (const [control] of controls) control.value = "fixed";
  try {
    // Older front ends take the ids directly, newer ones under a name.
    return (await app.queuePrompt(0, 1, Object.assign([...ids], { queueNodeIds: [...ids] }))) !== false;
  } finally {
    for (const [control, value] of controls) control.value = value;
  }
}

/** Hide the images that the front end would show on a node. */
export function showNoImages(node) {
  node.hideOutputImages = true;
  if (!node.onDrawBackground) missing("onDrawBackground", "images of a Critic Loop may be shown a second time below its view");
  node.onDrawBackground = () => {};
}

/** Zoom the graph when the wheel turns over an element of the pack. */
export function zoom(event) {
  app.canvas?.processMouseWheel?.(event);
}

/** Show a warning over the graph for some seconds. */
export function warn(summary, detail) {
  const toast = app.extensionManager?.toast;
  if (toast?.add) toast.add({ severity: "warn", summary, detail, life: 12000 });
  else missing("extensionManager.toast", `warnings are shown only here: ${detail}`);
}

/** Add a tab to the side bar. */
export function sideBar(tab) {
  const add = app.extensionManager?.registerSidebarTab;
  if (add) add.call(app.extensionManager, tab);
  else missing("registerSidebarTab", "there is no list of all stories");
}

/** Put new nodes on the canvas, in columns, below the nodes that are there; empty columns if a class is missing. */
export function addNodes(columns) {
  const made = columns.map((classes) => classes.map((name) => globalThis.LiteGraph.createNode(name)));
  if (!made.flat().length || made.flat().some((node) => !node)) return columns.map(() => []);
  const { graph, ds, canvas } = app.canvas;
  const ratio = globalThis.devicePixelRatio || 1;
  const bottoms = (graph.nodes ?? graph._nodes ?? []).map(({ pos, size }) => pos[1] + size[1]);
  const top = bottoms.length ? Math.max(...bottoms) + 100 : canvas.height / ratio / 2 / ds.scale - ds.offset[1] - 150;
  let x = canvas.width / ratio / 2 / ds.scale - ds.offset[0] - made.flat()[0].size[0];
  for (const column of made) {
    let y = top;
    for (const node of column) {
      node.pos = [x, y];
      graph.add(node);
      y += Math.max(node.size[1], 340) + 60;
    }
    x += Math.max(0, ...column.map((node) => node.size[0] + 60));
  }
  app.canvas.selectNodes?.(made.flat());
  goTo(made.flat().at(-1));
  return made;
}

/** Set the widgets of a node that have these names. */
export function fill(node, values) {
  for (const widget of node.widgets ?? []) {
    if (!(widget.name in values)) continue;
    const value = values[widget.name];
    // A list of files is as old as the page.
    const known = widget.options?.values;
    if (Array.isArray(known) && !known.includes(value)) known.unshift(value);
    widget.value = value;
    widget.callback?.(value, app.canvas, node);
  }
  redraw();
}

/** Connect the first output of a node with an input of another. */
export function connect(from, to, input) {
  from.connect(0, to, to.inputs.findIndex((one) => one.name === input));
}

/** Remove the links to those inputs of a node whose names `is` true of. */
export function disconnect(node, is) {
  // From the end: inputs that grow also shrink.
  for (const [slot, { name, link }] of [...node.inputs.entries()].reverse()) if (link != null && is(name)) node.disconnectInput(slot);
}

/** Show a node in the middle of the canvas. */
export function goTo(node) {
  if (!app.canvas?.centerOnNode) return missing("canvas.centerOnNode", "a waiting story does not show its Edit Plan");
  app.canvas.centerOnNode(node);
  redraw();
}

/** Receive a file dropped on the graph before the front end does; `take` returns whether it has handled it. */
export function onDroppedFile(take) {
  const before = app.handleFile;
  if (!before) return missing("handleFile", "a dropped GIF of a story does not open its workflow");
  app.handleFile = async function (file, ...values) {
    if (await take(file)) return undefined;
    return before.call(this, file, ...values);
  };
}

/** Redraw the canvas. */
export function redraw() {
  app.graph?.setDirtyCanvas?.(true, true);
}

/** Whether a node can contain elements of the page; logs once if it cannot. */
export function holdsElements(node) {
  if (!node.addDOMWidget) missing("addDOMWidget", "nodes show the front end's own previews, and plans are edited as text");
  return Boolean(node.addDOMWidget);
}

/** Whether the user has the page in front of them. */
export function isSeen() {
  return document.hasFocus() && !document.hidden;
}

const MARK = "\u25cf ";
/** How often the mark is put before a title that the front end has set: a contest must have an end. */
const MOST_MARKS = 20;
let marks = 0;

/** Put a mark before the title of the browser tab until the user sees the page. */
export function markTitle() {
  if (isSeen()) return;
  marks = MOST_MARKS;
  keepTitle();
}

/** Show a running node in the title by its name, since the host shows the id of its class; and the mark. */
function keepTitle() {
  const shown = document.title.replaceAll(MARK, "");
  const id = shown.match(/\bInterleave\w+/)?.[0];
  const name = globalThis.LiteGraph?.registered_node_types?.[id]?.title;
  const named = name && !name.includes(id) ? shown.replace(id, name) : shown;
  const title = marks > 0 ? MARK + named : named;
  // A title that stays the same would be observed again, without end.
  if (title === document.title) return;
  if (marks > 0) marks -= 1;
  document.title = title;
}

function watchTitle() {
  const title = document.querySelector("title");
  if (!title) return missing("a title", "a running node is named by its id in the browser tab");
  new MutationObserver(keepTitle).observe(title, { childList: true });
  globalThis.addEventListener("focus", () => {
    marks = 0;
    keepTitle();
  });
}

/** What the list of templates shows first, by number; the others are in a second list. */
const FIRST = ["01", "02", "03", "05", "07", "10", "11", "17", "25", "28", "29", "30"];

/** List this pack's templates in order and in two parts: the host has one, in the order of the disk. */
function orderTemplates() {
  const list = api.getWorkflowTemplates;
  if (!list) return missing("getWorkflowTemplates", "the templates are in the order of the disk");
  const pack = decodeURIComponent(new URL(import.meta.url).pathname.split("/extensions/").pop().split("/")[0]);
  api.getWorkflowTemplates = async function (...given) {
    const packs = await list.apply(this, given);
    if (!Array.isArray(packs?.[pack])) return packs;
    const isFirst = (name) => FIRST.includes(name.slice(0, 2));
    const names = packs[pack].sort();
    // The name is also the address of the files: with "/." at its end it is another name of the same place.
    return { ...packs, [pack]: names.filter(isFirst), [`${pack}/.`]: names.filter((name) => !isFirst(name)) };
  };
}

/** Have %date:yyyy-MM-dd% and %Node.widget% in a file name replaced when the graph is queued, as the host does for its own nodes. */
function replaceTokens(node) {
  const widget = node.comfyClass?.startsWith("Interleave") && node.widgets?.find((one) => one.name === "filename_prefix");
  if (!widget) return;
  const replaced = globalThis.comfyAPI?.utils?.applyTextReplacements;
  if (replaced) widget.serializeValue = () => replaced(rootGraph(), widget.value);
  else missing("applyTextReplacements", "%date% and %Node.widget% in file names are not replaced");
}

app.registerExtension({
  name: "InterleaveThinker.Host",
  nodeCreated: replaceTokens,
  init() {
    orderTemplates();
    watchTitle();
  },
  setup() {
    if (setting(LANGUAGE) === undefined) missing("a setting for the language", "everything is in English");
    if (globalThis.LiteGraph?.vueNodesMode === undefined && setting(VUE_NODES) === undefined)
      missing("vueNodesMode", "the preview of an image in progress may be shown twice");
    if (!app.canvas?.processMouseWheel) missing("processMouseWheel", "the wheel does not zoom over a list of steps");
  },
});
