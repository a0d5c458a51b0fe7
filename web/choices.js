// Labels of the choices of the pack's nodes and of their empty text fields, in the language of the front end.
//
// The front end reads names and tooltips of inputs from locales/, but not the labels of choices. On the canvas, an empty text
// field shows the name of its input in the workflow. The values of widgets stay as they are saved.

import { app } from "../../scripts/app.js";
import { api } from "../../scripts/api.js";
import { language as chosenLanguage } from "./host.js";
import { resolved } from "./languages.js";

const OURS = "Interleave";
/** Values of choices up to 0.3.0, by widget, with those that replace them. */
const FORMER = { seed_rule: { "every try": "every attempt" }, captions: { "as asked": "as requested" } };

let language = "";
let nodeDefs = {};

/** Load the labels of the front end's language, unless loaded. Without them the values are shown. */
async function fetchLabels() {
  const wanted = resolved(chosenLanguage());
  if (wanted === language) return;
  try {
    const answer = await api.fetchApi("/i18n");
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    nodeDefs = (await answer.json())[wanted]?.nodeDefs ?? {};
    language = wanted;
  } catch (error) {
    console.warn(`InterleaveThinker: cannot load the choices for ${wanted}: ${error.message}`);
  }
}

/** Give the inputs of a saved node the values that mean the same today. */
function readFormer(node, saved) {
  const place = node.widgets?.findIndex((widget) => widget.name === "strictness") ?? -1;
  // Nodes without a strictness had a threshold only.
  if (place >= 0 && Array.isArray(saved.widgets_values) && saved.widgets_values.length <= place)
    if (node.widgets.some((widget) => widget.name === "accept_at")) node.widgets[place].value = "custom";
  const [keep, failure] = ["keep", "on_failure"].map((name) => node.widgets?.find((widget) => widget.name === name));
  if (keep?.value === "best" && failure?.value === "stop") [keep.value, failure.value] = ["stop", "keep"];
  for (const widget of node.widgets ?? []) {
    const present = FORMER[widget.name]?.[widget.value];
    if (present !== undefined) widget.value = present;
  }
}

app.registerExtension({
  name: "InterleaveThinker.Choices",
  init: fetchLabels,
  // After a change of the language, the host rebuilds all nodes of the graph.
  beforeConfigureGraph: fetchLabels,
  nodeCreated(node) {
    if (!node.comfyClass?.startsWith(OURS)) return;
    const configured = node.onConfigure;
    node.onConfigure = function (saved, ...given) {
      configured?.call(this, saved, ...given);
      readFormer(this, saved);
    };
    for (const widget of node.widgets ?? []) {
      const labels = new Map(Object.entries(nodeDefs[node.comfyClass]?.inputs?.[widget.name]?.options ?? {}));
      if (labels.size && widget.options) widget.options.getOptionLabel = (value) => labels.get(value) ?? value ?? "";
      if (widget.element?.placeholder === widget.name) widget.element.placeholder = widget.label ?? widget.name;
    }
  },
});
