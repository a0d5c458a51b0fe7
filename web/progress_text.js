// The line of text on a working node, in the language of the front end and not part of the graph.
//
// The host puts this line into a widget and sends the widget's text with the next prompt, as if it were an input. The node would
// count as changed and run again on every second queue, which takes minutes for an agent. For a node inside a subgraph the line
// is also shown on the subgraph's node while that one is visible, since the front end shows it inside only.

import { app } from "../../scripts/app.js";
import { api } from "../../scripts/api.js";
import { rootGraph } from "./host.js";
import { heard } from "./words.js";

const OURS = /^Interleave/;
const SHOWN_ONLY = /^\$\$/;

/** The visible node whose subgraph contains the working node; undefined if there is none. */
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
