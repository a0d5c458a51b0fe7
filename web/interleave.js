// The live view of Critic Loop and Attempt End: finds the node of each message and passes the message to that node's view.
// Without it, a node shows the host's own previews and images.

import { app } from "../../scripts/app.js";
import { api } from "../../scripts/api.js";
import { call } from "./calls.js";
import { addressOf } from "./exports.js";
import {
  changingWidgets,
  flatGraph,
  goTo,
  holdsElements,
  isOutputClass,
  language,
  laysOutNodes,
  nodeAt,
  onSubgraphOpened,
  pathOf,
  prefixesOf,
  queuedGraph,
  queueOutputs,
  rootGraph,
  showNoImages,
} from "./host.js";
import { resolved } from "./languages.js";
import { branchOf, neededFor } from "./live/branch.js";
import { make } from "./live/elements.js";
import { Requests } from "./live/requests.js";
import { planEditorBefore, runChanged, views } from "./live/shown_runs.js";
import { RunState } from "./live/state.js";
import { RunView } from "./live/view.js";
import { say } from "./words.js";

const EVENT = "interleave-thinker";
const CHANGED = "interleave-thinker-changed";
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

/** What shows the runs of a node; undefined for other nodes. */
function shownFor(node) {
  if (!NODES.includes(node?.comfyClass) || !holdsElements(node)) return undefined;
  if (!views.has(node)) attach(node);
  return views.get(node);
}

/** {state, view} of a node at an execution id, by default of the use that is open; undefined for other nodes. */
function useOf(node, path = node && pathOf(node)) {
  const shown = shownFor(node);
  if (shown && !shown.uses.has(path)) shown.uses.set(path, newUse(node, path));
  return shown?.uses.get(path);
}

function newUse(node, path) {
  const state = new RunState();
  const view = new RunView(state, requests, {
    again: () => queueStory(path, state),
    idle: () => idleLine(node),
    hasMasks: node.comfyClass === "InterleaveCriticLoop",
    isPlanEditable: () => Boolean(planEditorBefore(node)),
    editPlan: () => goTo(planEditorBefore(node)),
    write: async (to) => addressOf(await requests.takeaway(state.run, to, resolved(language()))),
  });
  return { state, view };
}

/** Show the open use of a node. */
function bring(node) {
  const use = useOf(node);
  const place = views.get(node)?.place;
  if (!use || place.firstChild === use.view.element) return;
  place.replaceChildren(use.view.element);
  use.view.update();
}

/** The name of the last run of a node at an execution id, which the workflow keeps. Uses of one subgraph share the property. */
function runOf(node, path) {
  const kept = node.properties?.[RUN_PROPERTY];
  return typeof kept === "object" ? kept?.[path] : prefixesOf(node.graph).length > 1 ? undefined : kept;
}

function keepRun(node, path, run) {
  if (runOf(node, path) === run) return;
  const kept = node.properties[RUN_PROPERTY];
  const several = prefixesOf(node.graph).length > 1;
  node.properties[RUN_PROPERTY] = several ? { ...(typeof kept === "object" ? kept : {}), [path]: run } : run;
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

/** Queue only the story at an execution id, with the seeds of the shown run; false if the host did not accept it. */
async function queueStory(path, state) {
  const graph = await flatGraph();
  if (!(path in graph)) return false;
  const targets = new Set(branchOf(graph, path, isOutputClass, (name) => NODES.includes(name)));
  if (!targets.size) return false;
  await takeSeedsBack(new Set([...targets].flatMap((target) => [...neededFor(graph, target)])), state.about?.prompt);
  return await queueOutputs(targets);
}

/** The line of a node without a run. Whether the plan needs a generator is known only when it is planned. */
function idleLine(node) {
  const isWithout = node.inputs?.some((input) => input.name === "generator" && input.link == null);
  return isWithout ? say("No generator is connected: only a plan of text-only steps can run.") : say("The steps appear here during a run.");
}

function attach(node) {
  const place = make("div", "it-place");
  const shown = { place, uses: new Map() };
  views.set(node, shown);
  const widget = node.addDOMWidget("interleave_live", "interleave_live", place, {
    serialize: false,
    hideOnZoom: true,
    getMinHeight: () => (useOf(node).state.isEmpty ? IDLE_HEIGHT : MIN_HEIGHT),
    getValue: () => "",
    setValue: () => {},
  });
  widget.serialize = false;
  // The host's own previews would show the same images again below.
  showNoImages(node);
  const { onAdded, onConnectionsChange, onRemoved } = node;
  node.onAdded = function (...values) {
    onAdded?.apply(this, values);
    bring(node);
  };
  node.onConnectionsChange = function (...values) {
    onConnectionsChange?.apply(this, values);
    for (const { view } of shown.uses.values()) view.update();
  };
  node.onRemoved = function (...values) {
    onRemoved?.apply(this, values);
    for (const { view } of shown.uses.values()) view.dispose();
    views.delete(node);
    runChanged();
  };
}

/** Show what a use received; a node that has only a line so far gets room for it. */
function refresh(node, path, { state, view }, wasEmpty) {
  view.update();
  runChanged();
  if (!wasEmpty || state.isEmpty || path !== pathOf(node)) return;
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
  const path = String(message.node);
  const node = nodeAt(path);
  const use = useOf(node, path);
  if (!use) return;
  bring(node);
  const wasEmpty = use.state.isEmpty;
  const ran = use.state.running;
  use.state.take(message);
  if (!ran && use.state.running) use.began = performance.now();
  if (ran && !use.state.running && use.state.about.status !== "cancelled") call(use.began);
  if (message.shown.kind === "run") keepRun(node, path, message.shown.run);
  refresh(node, path, use, wasEmpty);
}

/** Show the newest run of a node's open use: from the running server, else from the folder of its last run. */
async function recall(node) {
  bring(node);
  const path = pathOf(node);
  const use = useOf(node, path);
  if (!use) return;
  const known = use.state.version;
  const received = await requests.live(path, rootGraph()?.id);
  const run = use.state.run || runOf(node, path);
  restore(node, path, received.messages.length || !run ? received : await requests.run(run), known);
}

/** Show a run from its folder at an execution id. */
async function recallRun(path, run) {
  const node = nodeAt(path);
  const use = useOf(node, path);
  if (!use) return;
  const known = use.state.version;
  const received = await requests.run(run);
  if (received.messages.length) keepRun(node, path, run);
  restore(node, path, received, known);
}

/** Show a run from the server, unless newer messages have arrived since the state had the version `known`. */
function restore(node, path, received, known) {
  const use = useOf(node, path);
  if (!received.messages.length || use.state.version !== known) return;
  const wasEmpty = use.state.isEmpty;
  use.state.restore(received);
  refresh(node, path, use, wasEmpty);
}

/** A node has a result. A run that was followed is shown already. For a cached result, the host sends only the display. */
function executed({ node, display_node, output }) {
  const run = output?.[RUNS]?.at(-1);
  const path = String(display_node ?? node);
  if (run && run !== useOf(nodeAt(path), path)?.state.run) recallRun(path, run).catch(warn);
}

/** A run has ended, or the user decided about it: show what another tab did. */
async function followed(run) {
  const uses = [...views.values()].flatMap((shown) => [...shown.uses]).filter(([, { state }]) => state.run === run && !state.running);
  if (!uses.length) return;
  const received = await requests.run(run);
  const about = received.messages.find(({ shown }) => shown.kind === "run")?.shown;
  for (const [path, { state, view }] of uses) {
    if (!about || state.run !== run || state.running) continue;
    if (about.line === state.about.line && about.status === state.about.status) state.noted(received);
    else restore(nodeAt(path), path, received, state.version);
    view.update();
  }
}

function warn(error) {
  console.warn("InterleaveThinker:", error);
}

/** The prompt failed or was interrupted. A loop reports this itself; nodes between Attempt Start and Attempt End do not. */
function stopAll() {
  for (const { state, view } of [...views.values()].flatMap(({ uses }) => [...uses.values()])) {
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
  const path = String(displayNodeId ?? nodeId ?? "");
  const use = useOf(nodeAt(path), path);
  if (!use) return;
  use.view.preview(blob);
  if (laysOutNodes()) event.stopImmediatePropagation();
});

app.registerExtension({
  name: "InterleaveThinker.Live",
  setup() {
    document.head.append(style);
    api.addEventListener(EVENT, ({ detail }) => receive(detail));
    api.addEventListener(CHANGED, ({ detail }) => followed(detail?.run).catch(warn));
    api.addEventListener("executed", ({ detail }) => executed(detail ?? {}));
    onSubgraphOpened(() => {
      recallAll();
      runChanged();
    });
    api.addEventListener("reconnected", recallAll);
    api.addEventListener("execution_error", stopAll);
    api.addEventListener("execution_interrupted", stopAll);
    api.addEventListener("progress", ({ detail }) => {
      const path = String(detail?.node ?? "");
      const use = useOf(nodeAt(path), path);
      if (!use) return;
      use.state.share = detail.value / detail.max;
      use.view.update();
    });
  },
  nodeCreated(node) {
    shownFor(node);
  },
  afterConfigureGraph() {
    recallAll();
  },
});
