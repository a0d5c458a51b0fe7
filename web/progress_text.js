// The line of text that a node shows while it works: in the language of the front end, and no part of the graph.
//
// Decision: the host puts that line into a widget of its own and then sends the widget's text with the next prompt, as if it
// were an input. The node would count as changed and run again on every second queue, which for an agent takes minutes.
// A node inside a subgraph says its line on the subgraph's node, too, as long as that is what is to be seen: the front end
// itself shows it inside alone, and lets no such widget out.

import { app } from "../../scripts/app.js";
import { api } from "../../scripts/api.js";
import { rootGraph } from "./host.js";
import { heard } from "./words.js";

const OURS = /^Interleave/;
const SHOWN_ONLY = /^\$\$/;

/** The node of the graph on the canvas inside which a node of ours works; none if that is not to be seen. */
function outside(path) {
  const [first, ...inner] = path.split(":");
  const graph = rootGraph();
  if (!inner.length || app.canvas?.graph !== graph) return undefined;
  const node = graph.getNodeById(first) ?? graph.getNodeById(Number(first));
  let one = node;
  for (const id of inner) one = one?.subgraph?.getNodeById(id) ?? one?.subgraph?.getNodeById(Number(id));
  return OURS.test(one?.comfyClass ?? one?.type ?? "") ? node : undefined;
}

/** Keep the line of a subgraph's node out of saved workflows. */
function shownOnly(node) {
  for (const widget of node.widgets ?? []) {
    if (!SHOWN_ONLY.test(widget.name ?? "")) continue;
    widget.serialize = false;
    (widget.options ??= {}).serialize = false;
  }
}

api.addEventListener("progress_text", ({ detail }) => {
  const node = outside(String(detail?.nodeId ?? ""));
  if (!node) return;
  const text = typeof detail.text === "string" ? heard(detail.text) : detail.text;
  api.dispatchEvent(new CustomEvent("progress_text", { detail: { ...detail, nodeId: String(node.id), text } }));
  shownOnly(node);
});

app.registerExtension({
  name: "InterleaveThinker.ProgressText",

  nodeCreated(node) {
    if (!OURS.test(node.comfyClass ?? "") || !node.addCustomWidget) return;
    const add = node.addCustomWidget;
    node.addCustomWidget = function (widget) {
      if (SHOWN_ONLY.test(widget.name ?? "")) {
        const { setValue } = (widget.options ??= {});
        widget.options.serialize = false;
        if (setValue) widget.options.setValue = (value) => setValue(typeof value === "string" ? heard(value) : value);
      }
      return add.call(this, widget);
    };
  }
});
