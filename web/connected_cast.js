// The cast that is connected to Edit Plan, read from the Cast nodes of the graph, so it is shown before the graph is queued.

import { addressOf } from "./plan_images.js";

const NODE = "InterleaveCast";
const MOST = 16;
const MUTED = 2;
const BYPASSED = 4;
const changed = new Set();

/** Call `then` when a Cast node changes; returns a function that ends this. */
export function onCastChanged(then) {
  changed.add(then);
  return () => changed.delete(then);
}

/** Report the changes of a node, if it is a Cast. */
export function watchCast(node) {
  if (node.comfyClass !== NODE) return;
  const report = () => changed.forEach((then) => then());
  for (const widget of node.widgets ?? []) {
    const before = widget.callback;
    widget.callback = function (...given) {
      const result = before?.apply(this, given);
      report();
      return result;
    };
  }
  const connections = node.onConnectionsChange;
  node.onConnectionsChange = function (...given) {
    connections?.apply(this, given);
    report();
  };
}

/** The members that are connected to a node's `cast`; null if there are none. `shown` are the members of its last run,
 *  which are used for what the graph does not tell: values on wires, other nodes between, images that are not files. */
export function connectedCast(node, shown = []) {
  const members = [];
  let at = node;
  // The nodes are counted, because a workflow may connect them in a circle.
  for (let count = 0; isLinked(at, "cast"); count++) {
    at = nodeAt(at, "cast");
    if (at?.mode === MUTED) break;
    if (at?.comfyClass !== NODE || count === MOST) return shown;
    if (at.mode === BYPASSED) continue;
    if (["name", "kind", "traits"].some((name) => isLinked(at, name))) return shown;
    const member = memberOf(at, shown);
    if (member.name) members.unshift(member);
  }
  return members.length ? members : null;
}

function memberOf(node, shown) {
  const value = (name) => String(node.widgets?.find((widget) => widget.name === name)?.value ?? "");
  const traits = value("traits").split("\n").map((one) => one.trim()).filter(Boolean);
  const name = value("name").trim();
  const ran = shown.find((one) => one.name.toLowerCase() === name.toLowerCase());
  return { name, kind: value("kind"), traits, thumbnail: imageOf(node) ?? ran?.thumbnail };
}

/** The address of the newest image, if it is a file of Load Image. */
function imageOf(node) {
  const slot = node.inputs?.findLastIndex((input) => input.name.startsWith("images.") && input.link != null) ?? -1;
  const source = slot < 0 ? undefined : node.getInputNode(slot);
  const file = source?.comfyClass === "LoadImage" && source.widgets?.find((widget) => widget.name === "image")?.value;
  return typeof file === "string" && file ? addressOf(file) : undefined;
}

function isLinked(node, name) {
  return node.inputs?.some((input) => input.name === name && input.link != null) ?? false;
}

function nodeAt(node, name) {
  const slot = node.inputs?.findIndex((input) => input.name === name && input.link != null) ?? -1;
  return slot < 0 ? undefined : node.getInputNode(slot);
}
