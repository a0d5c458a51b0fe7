// Notice about a plan with another number of steps than requested; the node's own line disappears when the run ends. A cached
// plan repeats the warning with every run, so the same one is shown once.

import { app } from "../../scripts/app.js";
import { warn } from "./host.js";
import { heard } from "./words.js";

const NODE = "InterleavePlanner";
const WARNING = "interleave_plan_warning";

app.registerExtension({
  name: "InterleaveThinker.PlanWarning",

  nodeCreated(node) {
    if (node.comfyClass !== NODE) return;
    const { onExecuted } = node;
    let last;
    node.onExecuted = function (output) {
      onExecuted?.apply(this, arguments);
      const warning = output?.[WARNING]?.[0];
      if (warning && warning !== last) warn(node.title, heard(warning));
      last = warning;
    };
  }
});
