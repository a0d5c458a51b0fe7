// Notice about a plan that differs from its request, or in which the plan check found problems; the node's own line disappears when
// the run ends. A cached plan repeats the warnings with every run, so the same ones are shown once.

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
      const warning = (output?.[WARNING] ?? []).map(heard).join("\n");
      if (warning && warning !== last) warn(node.title, warning);
      last = warning;
    };
  }
});
