// The live view of Critic Loop and Attempt End: finds the node of each message and passes the message to that node's view.
// Without it, a node shows the host's own previews and images.

import { app } from "../../scripts/app.js";
import { api } from "../../scripts/api.js";
import {
  changingWidgets,
  flatGraph,
  goTo,
  holdsElements,
  isOutputClass,
  laysOutNodes,
  queuedGraph,
  queueOutputs,
  rootGraph,
  showNoImages,
} from "./host.js";
import { branchOf, neededFor } from "./live/branch.js";
import { Requests } from "./live/requests.js";
import { planEditorBefore, runChanged, views } from "./live/shown_runs.js";
import { RunState } from "./live/state.js";
import { RunView } from "./live/view.js";
import { say } from "./words.js";

const EVENT = "interleave-thinker";
const VERSION = 1;
const NODES = ["InterleaveCriticLoop", "InterleaveTryClose"];
const RUN_PROPERTY = "interleave_run";
const RUNS = "interleave_runs";
const IDLE_HEIGHT = 36;
const MIN_HEIGHT = 260;
const FIRST_HEIGHT = 460;

const requests = new Requests(api);

const style = document.createElement("link");
style.rel = "stylesheet";
style.href = new URL("./interleave.css", import.meta.url).href;

/** The node with an execution id such as "7", or "75:62" inside a subgraph; undefined if this graph has none. */
function nodeAt(path) {
  let graph = rootGraph();
  let node;
  for (const part of String(path).split(":")) {
    // Ids are numbers in a graph of the front end, and strings in one loaded from its API form.
    node = graph?.getNodeById?.(part) ?? graph?.getNodeById?.(Number(part));
    graph = node?.subgraph;
  }
  return node;
}

/** The execution ids of a node: one for a node of the graph, one per use of its subgraph otherwise. */
function pathsOf(node, graph = rootGraph(), prefix = "") {
  if (!graph) return [];
  if (node.graph === graph) return [`${prefix}${node.id}`];
  return (graph.nodes ?? [])
    .filter((one) => one.subgraph)
    .flatMap((one) => pathsOf(node, one.subgraph, `${prefix}${one.id}:`));
}

function shownFor(node) {
  if (!NODES.includes(node?.comfyClass) || !holdsElements(node)) return undefined;
  let shown = views.get(node);
  if (!shown) {
    shown = attach(node);
    views.set(node, shown);
  }
  return shown;
}

/** Set the seeds of the nodes at these paths back to those of a prompt, if they change with every run. */
async function takeSeedsBack(paths, prompt) {
  const queued = prompt ? await queuedGraph(prompt) : {};
  for (const path of paths)
    for (const [widget] of changingWidgets(nodeAt(path))) {
      const before = queued[path]?.inputs?.[widget.name];
      if (typeof before === "number") widget.value = before;
    }
}

/** Queue only the story of a node, with the seeds of the shown run; false if the host did not accept it. */
async function queueStory(node, state) {
  const graph = await flatGraph();
  const paths = pathsOf(node).filter((path) => path in graph);
  const isLoop = (name) => NODES.includes(name);
  const targets = new Set(paths.flatMap((path) => branchOf(graph, path, isOutputClass, isLoop)));
  if (!targets.size) return false;
  await takeSeedsBack(new Set([...targets].flatMap((path) => [...neededFor(graph, path)])), state.about?.prompt);
  return await queueOutputs(targets);
}

/** The line of a node without a run. Whether the plan needs a generator is known only when it is planned. */
function idleLine(node) {
  const isWithout = node.inputs?.some((input) => input.name === "generator" && input.link == null);
  return isWithout ? say("No generator is connected: only a plan of text-only steps can run.") : say("The steps appear here during a run.");
}

function attach(node) {
  const state = new RunState();
  const view = new RunView(state, requests, {
    again: () => queueStory(node, state),
    idle: () => idleLine(node),
    isPlanEditable: () => Boolean(planEditorBefore(node)),
    editPlan: () => goTo(planEditorBefore(node)),
  });
  const widget = node.addDOMWidget("interleave_live", "interleave_live", view.element, {
    serialize: false,
    hideOnZoom: true,
    getMinHeight: () => (state.isEmpty ? IDLE_HEIGHT : MIN_HEIGHT),
    getValue: () => "",
    setValue: () => {},
  });
  widget.serialize = false;
  // The host's own previews would show the same images again below.
  showNoImages(node);
  const executed = node.onExecuted;
  node.onExecuted = function (output, ...values) {
    executed?.call(this, output, ...values);
    const run = output?.[RUNS]?.at(-1);
    // A run that was followed is shown already. For a cached result, the host sends only the display.
    if (run && run !== state.run) recallRun(node, run).catch(warn);
  };
  const connections = node.onConnectionsChange;
  node.onConnectionsChange = function (...values) {
    connections?.apply(this, values);
    view.update();
  };
  const removed = node.onRemoved;
  node.onRemoved = function (...values) {
    removed?.apply(this, values);
    view.dispose();
    views.delete(node);
    runChanged();
  };
  return { state, view };
}

function makeRoom(node, wasEmpty, state) {
  if (!wasEmpty || state.isEmpty) return;
  const wanted = node.computeSize?.()[1] ?? 0;
  node.setSize?.([Math.max(node.size[0], 340), Math.max(node.size[1], wanted - MIN_HEIGHT + FIRST_HEIGHT)]);
  node.setDirtyCanvas?.(true, true);
}

function ofThisWorkflow(workflow) {
  const id = rootGraph()?.id;
  return !workflow || !id || workflow === String(id);
}

function receive(message) {
  if (message?.version !== VERSION || !ofThisWorkflow(message.workflow)) return;
  const node = nodeAt(message.node);
  const shown = shownFor(node);
  if (!shown) return;
  const wasEmpty = shown.state.isEmpty;
  shown.state.take(message);
  if (message.shown.kind === "run" && node.properties[RUN_PROPERTY] !== message.shown.run)
    node.properties[RUN_PROPERTY] = message.shown.run;
  makeRoom(node, wasEmpty, shown.state);
  shown.view.update();
  runChanged();
}

/** Show a node's newest run: from the running server, else from the folder of its last run. */
async function recall(node) {
  const shown = shownFor(node);
  if (!shown) return;
  const known = shown.state.version;
  let received = { messages: [] };
  for (const path of pathsOf(node)) {
    received = await requests.live(path, rootGraph()?.id);
    if (received.messages.length) break;
  }
  const run = shown.state.run || node.properties?.[RUN_PROPERTY];
  if (!received.messages.length && run) received = await requests.run(run);
  restore(node, shown, received, known);
}

/** Show a run from its folder. */
async function recallRun(node, run) {
  const shown = shownFor(node);
  if (!shown) return;
  const known = shown.state.version;
  const received = await requests.run(run);
  if (received.messages.length) node.properties[RUN_PROPERTY] = run;
  restore(node, shown, received, known);
}

/** Show a run from the server, unless newer messages have arrived since the state had the version `known`. */
function restore(node, shown, received, known) {
  if (!received.messages.length || shown.state.version !== known) return;
  const wasEmpty = shown.state.isEmpty;
  shown.state.restore(received);
  makeRoom(node, wasEmpty, shown.state);
  shown.view.update();
  runChanged();
}

function warn(error) {
  console.warn("InterleaveThinker:", error);
}

/** The prompt failed or was interrupted. A loop reports this itself; nodes between Attempt Start and Attempt End do not. */
function stopAll() {
  for (const { state, view } of views.values()) {
    if (!state.running) continue;
    state.stop();
    view.update();
    runChanged();
  }
}

function recallAll() {
  for (const node of views.keys()) recall(node).catch(warn);
}

// In front ends that lay out nodes themselves, the node's own preview cannot be hidden, so the event is stopped. This listener
// must run first, hence it is added before the host's.
api.addEventListener("b_preview_with_metadata", (event) => {
  const { displayNodeId, nodeId, blob } = event.detail ?? {};
  const shown = views.get(nodeAt(displayNodeId ?? nodeId ?? ""));
  if (!shown) return;
  shown.view.preview(blob);
  if (laysOutNodes()) event.stopImmediatePropagation();
});

app.registerExtension({
  name: "InterleaveThinker.Live",
  setup() {
    document.head.append(style);
    api.addEventListener(EVENT, ({ detail }) => receive(detail));
    api.addEventListener("reconnected", recallAll);
    api.addEventListener("execution_error", stopAll);
    api.addEventListener("execution_interrupted", stopAll);
    api.addEventListener("progress", ({ detail }) => {
      const shown = views.get(nodeAt(detail?.node ?? ""));
      if (!shown) return;
      shown.state.share = detail.value / detail.max;
      shown.view.update();
    });
  },
  nodeCreated(node) {
    shownFor(node);
  },
  afterConfigureGraph() {
    recallAll();
  },
});
