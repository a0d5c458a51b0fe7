// A menu of the Step Generator: sampling settings and edit method that the maker of an image model recommends.
//
// The rows come with the node's definition. They are in a dialog, since there are more than a menu can show.

import { app } from "../../scripts/app.js";
import { redraw } from "./host.js";
import { make, show } from "./live/elements.js";
import { counted, heard, say } from "./words.js";

const NODE = "InterleaveStepGenerator";
const KEY = "interleave_model_settings";

function settingsOf(node) {
  const { required = {}, optional = {} } = node.constructor?.nodeData?.input ?? {};
  return { ...required, ...optional }.edit?.[1]?.[KEY] ?? [];
}

/** Set the widgets that have these names. */
function take(node, values) {
  for (const widget of node.widgets ?? []) {
    if (!(widget.name in values)) continue;
    widget.value = values[widget.name];
    widget.callback?.(widget.value, app.canvas, node);
  }
  redraw();
}

/** Show the models with their settings; the chosen one is taken over by the node. */
function openList(node) {
  const dialog = make("dialog", "it-live it-settings", { onclose: () => dialog.remove() });
  dialog.setAttribute("aria-label", say("Recommended settings"));
  const items = settingsOf(node).map(({ name, values }) => {
    const facts = [heard(counted(values.steps)), `cfg ${values.cfg}`, values.sampler, values.scheduler, values.edit].join(" · ");
    const chosen = () => {
      take(node, values);
      dialog.close();
    };
    const row = make("button", "it-setting", { type: "button", onclick: chosen }, make("span", "", {}, name));
    row.append(make("span", "it-quiet", {}, facts));
    return make("li", "", {}, row);
  });
  const search = make("input", "it-search", { type: "search", placeholder: say("Search models") });
  search.setAttribute("aria-label", say("Search models"));
  search.oninput = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const item of items) show(item, words.every((word) => item.textContent.toLowerCase().includes(word)));
  };
  const note = say("Steps, cfg, sampler, scheduler and edit method of the model's maker. Size and prompts stay as they are.");
  dialog.append(make("h4", "", {}, say("Recommended settings")), make("p", "it-quiet", {}, note), search, make("ol", "", {}, ...items));
  // Keep the front end's shortcuts from acting while the dialog is open.
  for (const kind of ["keydown", "keyup", "keypress", "paste", "copy", "wheel"])
    dialog.addEventListener(kind, (event) => event.stopPropagation());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  search.focus();
}

app.registerExtension({
  name: "InterleaveThinker.ModelSettings",
  getNodeMenuItems(node) {
    if (node.comfyClass !== NODE || !settingsOf(node).length) return [];
    return [{ content: `${say("Recommended settings")}…`, callback: () => openList(node) }];
  },
});
