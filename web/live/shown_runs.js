// The views of runs on the nodes of this page, and which of them belongs to a plan.
//
// A plan is followed along the wires to the loop that runs it, in and out of subgraphs; nothing of it is saved.

import { rootGraph } from "../host.js";

const EDITOR = "InterleaveEditPlan";

/** node -> {state, view} */
export const views = new Map();
const listeners = new Set();

/** Call `listener` whenever a run on the page has changed. */
export function onRunChanged(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function runChanged() {
  for (const listener of listeners) listener();
}

/** The view of the run that uses the output of a node; undefined if there is none. */
export function runAfter(node) {
  const waiting = [node];
  const seen = new Set(waiting);
  while (waiting.length) {
    const one = waiting.shift();
    const shown = views.get(one);
    if (shown && !shown.state.isEmpty) return shown;
    // The outputs of a loop belong to another story.
    const followers = shown ? [] : following(one);
    for (const next of followers) {
      if (seen.has(next)) continue;
      seen.add(next);
      waiting.push(next);
    }
  }
  return undefined;
}

/** The nearest Edit Plan in the same graph that a node needs; undefined if there is none. */
export function planEditorBefore(node) {
  const waiting = [node];
  const seen = new Set(waiting);
  while (waiting.length) {
    const one = waiting.shift();
    if (one.comfyClass === EDITOR) return one;
    for (const input of one.inputs ?? []) {
      const link = linkOf(one.graph, input.link);
      const origin = link && one.graph.getNodeById?.(link.origin_id);
      if (!origin || seen.has(origin)) continue;
      seen.add(origin);
      waiting.push(origin);
    }
  }
  return undefined;
}

function linkOf(graph, id) {
  return graph?.getLink?.(id) ?? graph?.links?.get?.(id) ?? graph?.links?.[id];
}

/** The nodes behind the outputs of a node; for a subgraph its nodes, and for its outputs the uses of the subgraph. */
function following(node) {
  const { graph } = node;
  const links = (node.outputs ?? []).flatMap((output) => output.links ?? []);
  const inner = node.subgraph?.nodes ?? [];
  return [...inner, ...links.flatMap((id) => targetsOf(graph, id))];
}

function targetsOf(graph, id) {
  const link = linkOf(graph, id);
  if (!link) return [];
  const target = graph.getNodeById?.(link.target_id);
  return target ? [target] : usesOf(graph).flatMap((use) => following({ graph: use.graph, outputs: use.outputs }));
}

function usesOf(graph, within = rootGraph()) {
  const nodes = within?.nodes ?? [];
  return nodes.flatMap((node) => (node.subgraph === graph ? [node] : node.subgraph ? usesOf(graph, node.subgraph) : []));
}
