// A menu of the Step Generator: sampling settings and edit method that the maker of an image model recommends.
//
// The rows come with the node's definition. They are in a dialog, since there are more than a menu can show.

import { app } from "../../scripts/app.js";
import { openChooser } from "./chooser.js";
import { fill } from "./host.js";
import { make } from "./live/elements.js";
import { counted, heard, say } from "./words.js";

const NODE = "InterleaveStepGenerator";
const KEY = "interleave_model_settings";

function settingsOf(node) {
  const { required = {}, optional = {} } = node.constructor?.nodeData?.input ?? {};
  return { ...required, ...optional }.edit?.[1]?.[KEY] ?? [];
}

/** Show the models with their settings; the chosen one is taken over by the node. */
function openList(node) {
  const rows = settingsOf(node).map(({ name, values }) => {
    const facts = [heard(counted(values.steps)), `cfg ${values.cfg}`, values.sampler, values.scheduler, values.edit].join(" · ");
    return { content: [make("span", "", {}, name), make("span", "it-quiet", {}, facts)], choose: () => fill(node, values) };
  });
  const note = say("Steps, cfg, sampler, scheduler and edit method of the model's maker. Size and prompts stay as they are.");
  openChooser({ title: say("Recommended settings"), note, placeholder: say("Search models"), rows });
}

app.registerExtension({
  name: "InterleaveThinker.ModelSettings",
  getNodeMenuItems(node) {
    if (node.comfyClass !== NODE || !settingsOf(node).length) return [];
    return [{ content: `${say("Recommended settings")}…`, callback: () => openList(node) }];
  },
});
