// Notice about a plan that differs from its request, or in which the plan check found problems; the node's own line disappears when
// the run ends. A cached plan repeats the warnings with every run, so the same ones are shown once.

import { app } from "../../scripts/app.js";
import { warn } from "./host.js";
import { heard, say } from "./words.js";

const NODE = "InterleavePlanner";
const WARNING = "interleave_plan_warning";
const BUTTON = "interleave_new_plan";

/** Offer to ask the agent again: with another seed, the stored plan is not that of these settings. */
function offerNewPlan(node) {
  const seed = node.widgets?.find((widget) => widget.name === "seed");
  if (!seed || !node.addWidget || node.widgets.some((widget) => widget.name === BUTTON)) return;
  const button = node.addWidget("button", BUTTON, null, () => {
    seed.value += 1;
    app.queuePrompt(0, 1);
  });
  button.label = say("New plan");
  button.serialize = false;
  button.options = { ...button.options, serialize: false };
  node.setDirtyCanvas?.(true, true);
}

app.registerExtension({
  name: "InterleaveThinker.PlanWarning",

  nodeCreated(node) {
    if (node.comfyClass !== NODE) return;
    const { onExecuted } = node;
    let last;
    node.onExecuted = function (output) {
      onExecuted?.apply(this, arguments);
      if (output?.interleave_plan_known) offerNewPlan(node);
      const warning = (output?.[WARNING] ?? []).map(heard).join("\n");
      if (warning && warning !== last) warn(node.title, warning);
      last = warning;
    };
  }
});
