// Where a plan is not as it was asked for, the Planner says so in a notice of the front end: the node's own line is gone when
// the run ends. A plan that is taken from the host's cache says it with every run, which a person needs to read once.

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
