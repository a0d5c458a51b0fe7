// Which nodes are queued for one story: its loop and the output nodes after it.
//
// Decision: an output node that also needs another story is left out, since that one could be generated anew: its seed may
// have changed since.

/**
 * The execution ids of the output nodes to queue for the loop at `start`.
 *
 * `graph`: the graph in its flat form (id -> {class_type, inputs}); `isOutput(class)`; `isLoop(class)`.
 */
export function branchOf(graph, start, isOutput, isLoop) {
  const before = new Map(Object.entries(graph).map(([id, node]) => [id, originsOf(node, graph)]));
  const needed = reached(start, (id) => before.get(id) ?? []);
  const after = reached(start, (id) => [...before].filter(([, origins]) => origins.includes(id)).map(([one]) => one));
  const isForeign = (id) => isLoop(graph[id].class_type) && !needed.has(id) && !after.has(id);
  const fits = (id) => isOutput(graph[id].class_type) && ![...reached(id, (one) => before.get(one) ?? [])].some(isForeign);
  return [start, ...[...after].filter((id) => id !== start && fits(id))];
}

function originsOf(node, graph) {
  const links = Object.values(node.inputs ?? {}).filter((value) => Array.isArray(value) && value.length === 2);
  return links.map(([id]) => String(id)).filter((id) => id in graph);
}

/** `start` and all that `next` leads to from it. */
function reached(start, next) {
  const found = new Set([start]);
  for (const id of found) for (const one of next(id)) found.add(one);
  return found;
}
