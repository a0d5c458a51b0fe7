// Edit Plan in the browser: the node's `edits` text as a list of steps. Without this file, only the text is shown.

import { app } from "../../scripts/app.js";
import { watchCast } from "./connected_cast.js";
import { holdsElements } from "./host.js";
import { make } from "./plan_elements.js";
import { PlanList } from "./plan_list.js";

const NODE = "InterleaveEditPlan";
const DISPLAY = "interleave_plan";

/** Call `then` after a method that the node may already have. */
function after(node, method, then) {
  const before = node[method];
  node[method] = function (...given) {
    const result = before?.apply(this, given);
    then(...given);
    return result;
  };
}

app.registerExtension({
  name: "InterleaveThinker.EditPlan",

  setup() {
    const style = make("link");
    Object.assign(style, { rel: "stylesheet", href: new URL("./edit_plan.css", import.meta.url).href });
    document.head.append(style);
  },

  nodeCreated(node) {
    watchCast(node);
    if (node.comfyClass !== NODE) return;
    const edits = node.widgets?.find((widget) => widget.name === "edits");
    if (!edits || !holdsElements(node)) return;
    const list = new PlanList(node, edits);
    node.setSize([Math.max(node.size[0], 420), Math.max(node.size[1], 480)]);
    after(node, "onConfigure", () => list.edits.read());
    after(node, "onConnectionsChange", () => list.show());
    after(node, "onRemoved", () => list.dispose());
    after(node, "onExecuted", (output) => list.edits.update(output?.[DISPLAY]?.[0]));
  }
});
