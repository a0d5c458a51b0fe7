// The views of runs on the nodes of this page, and which of them belongs to a plan.
//
// A plan is followed along the wires to the loop that runs it, in and out of subgraphs; nothing of it is saved.

import { nodeAt, pathOf } from "../host.js";

const EDITOR = "InterleaveEditPlan";

/** node -> {place, uses}: the element in the node, and {state, view} of every use of the node by its execution id. */
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
  const waiting = [pathOf(node)];
  const seen = new Set(waiting);
  while (waiting.length) {
    const path = waiting.shift();
    const shown = views.get(nodeAt(path));
    const use = shown?.uses.get(path);
    if (use && !use.state.isEmpty) return use;
    // The outputs of a loop belong to another story.
    const followers = shown ? [] : following(path);
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

/** The execution ids of the nodes behind a node; for a subgraph of its nodes, and for its outputs of the nodes behind its use. */
function following(path) {
  const node = nodeAt(path);
  if (!node) return [];
  const prefix = path.slice(0, path.lastIndexOf(":") + 1);
  const targets = (node.outputs ?? []).flatMap((output) => output.links ?? []).map((id) => linkOf(node.graph, id)?.target_id);
  const isInside = (id) => node.graph.getNodeById?.(id);
  const behind = targets.some((id) => id !== undefined && !isInside(id)) && prefix ? following(prefix.slice(0, -1)) : [];
  const inner = (node.subgraph?.nodes ?? []).map((one) => `${path}:${one.id}`);
  return [...inner, ...targets.filter(isInside).map((id) => `${prefix}${id}`), ...behind];
}
