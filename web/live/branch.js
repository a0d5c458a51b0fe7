// The nodes to queue for one story: its loop and the output nodes after it.
//
// An output node that also needs another story is left out, since that story could be generated again with a changed seed.

/**
 * The execution ids of the output nodes to queue for the loop at `start`.
 *
 * `graph`: the graph in flat form (id -> {class_type, inputs}); `isOutput(class)`; `isLoop(class)`.
 */
export function branchOf(graph, start, isOutput, isLoop) {
  const needed = neededFor(graph, start);
  const users = new Map();
  for (const id of Object.keys(graph))
    for (const origin of originsOf(graph, id)) users.set(origin, [...(users.get(origin) ?? []), id]);
  const after = reached(start, (id) => users.get(id) ?? []);
  const isForeign = (id) => isLoop(graph[id].class_type) && !needed.has(id) && !after.has(id);
  const fits = (id) => isOutput(graph[id].class_type) && ![...neededFor(graph, id)].some(isForeign);
  return [start, ...[...after].filter((id) => id !== start && fits(id))];
}

/** The ids of a node and of all nodes that it needs. */
export function neededFor(graph, start) {
  return reached(start, (id) => originsOf(graph, id));
}

function originsOf(graph, id) {
  const links = Object.values(graph[id]?.inputs ?? {}).filter((value) => Array.isArray(value) && value.length === 2);
  return links.map(([origin]) => String(origin)).filter((origin) => origin in graph);
}

/** `start` and everything reached from it by `next`. */
function reached(start, next) {
  const found = new Set([start]);
  for (const id of found) for (const one of next(id)) found.add(one);
  return found;
}
