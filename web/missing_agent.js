// Load Agent before a run: if its agent is missing, the node says where it belongs and how to get it.
//
// The notice is added only while an agent is missing and is never saved, so it takes no place among a workflow's values.

import { app } from "../../scripts/app.js";
import { api } from "../../scripts/api.js";
import { holdsElements, language, redraw } from "./host.js";
import { resolved } from "./languages.js";
import { make, textButton } from "./live/elements.js";
import { say } from "./words.js";

const NODE = "InterleaveLoadAgent";
const NOTICE = "interleave_missing_agent";
const DECIDING = ["agent", "hub_id", "download"];
const HEIGHT = 124;
/** Gigabytes of a Qwen3-VL in 16 bits, by the size in its name. */
const GIGABYTES = { "2B": 4.3, "4B": 8.9, "8B": 17.5 };
const TRANSLATED = ["zh"];

const nodes = new Set();

function valueOf(node, name) {
  return node.widgets?.find((widget) => widget.name === name)?.value;
}

/** The agent that a run would need on the disk; empty if it is downloaded, or known only during the run. */
function agentOf(node) {
  const onWire = node.inputs?.some((input) => DECIDING.includes(input.name) && input.link != null);
  const named = String(valueOf(node, "hub_id") ?? "").trim();
  if (onWire || (named && valueOf(node, "download"))) return "";
  return named || String(valueOf(node, "agent") ?? "");
}

/** Show or remove the notice of a node; without an answer of the server it stays as it is. */
async function check(node) {
  const agent = agentOf(node);
  let place = { found: true };
  if (agent) {
    const answer = await api.fetchApi(`/interleave-thinker/agent?${new URLSearchParams({ agent })}`);
    if (!answer.ok || agent !== agentOf(node)) return;
    place = await answer.json();
  }
  remove(node);
  if (!place.found && nodes.has(node)) add(node, agent, place);
  redraw();
}

function remove(node) {
  const widget = node.widgets?.find((one) => one.name === NOTICE);
  if (!widget) return;
  widget.onRemove?.();
  node.widgets = node.widgets.filter((one) => one !== widget);
  node.setSize([node.size[0], widget.heightBefore]);
}

function add(node, agent, place) {
  // The node is narrow: the whole path is in the tooltip and in the command.
  const values = { agent, folder: place.folder.split(/[\\/]/).slice(-2).join("/") };
  const text = agent.toLowerCase().endsWith(".gguf")
    ? say("{agent} is missing. Put the file and its mmproj file into {folder} and press R.", values)
    : say("{agent} is missing. Put its folder into {folder} and press R.", values);
  const line = make("div", "it-missing-line", { title: `${text}\n${place.folder}` }, text);
  line.setAttribute("role", "status");
  const command = make("code", "it-missing-command", { title: place.command }, place.command || place.folder);
  const help = textButton(say("Help"), say("Open the help page of this node"), openHelp);
  const [, hubName] = place.command.match(/^hf download (\S+)/) ?? [];
  const row = make("div", "it-missing-row", {}, ...(hubName ? [downloadButton(node, agent, hubName)] : []), help);
  const element = make("div", "it-missing", {}, line, command, row);
  const heightBefore = node.size[1];
  const widget = node.addDOMWidget(NOTICE, NOTICE, element, {
    serialize: false,
    hideOnZoom: true,
    getMinHeight: () => HEIGHT,
    getMaxHeight: () => HEIGHT,
    getValue: () => "",
    setValue: () => {},
  });
  widget.serialize = false;
  widget.heightBefore = heightBefore;
  node.setSize([node.size[0], Math.max(heightBefore, node.computeSize()[1])]);
}

/** A button that has the next run download the agent: it sets the two inputs for this, which are folded otherwise. */
function downloadButton(node, agent, hubName) {
  const gigabytes = GIGABYTES[agent.match(/\d+B/)?.[0]];
  const label = gigabytes ? say("Download {size} GB", { size: gigabytes }) : say("Download");
  return textButton(label, say("The next run downloads it from the Hugging Face Hub"), () => {
    for (const [name, value] of [["hub_id", hubName], ["download", true]]) {
      const widget = node.widgets.find((one) => one.name === name);
      widget.value = value;
      widget.callback?.(value);
    }
  });
}

/** Open the node's help page as text: browsers download the host's Markdown files instead of showing them. */
async function openHelp() {
  const chosen = resolved(language());
  const page = TRANSLATED.includes(chosen) ? `${NODE}/${chosen}.md` : `${NODE}.md`;
  const answer = await fetch(new URL(`./docs/${page}`, import.meta.url));
  const shown = URL.createObjectURL(new Blob([await answer.text()], { type: "text/plain;charset=utf-8" }));
  window.open(shown, "_blank", "noopener");
}

function checkSafely(node) {
  check(node).catch((error) => console.warn("InterleaveThinker:", error));
}

app.registerExtension({
  name: "InterleaveThinker.MissingAgent",
  nodeCreated(node) {
    if (node.comfyClass !== NODE || !holdsElements(node)) return;
    nodes.add(node);
    const removed = node.onRemoved;
    node.onRemoved = function (...given) {
      removed?.apply(this, given);
      nodes.delete(node);
    };
    for (const widget of node.widgets ?? []) {
      if (!DECIDING.includes(widget.name)) continue;
      const changed = widget.callback;
      widget.callback = function (...given) {
        const result = changed?.apply(this, given);
        checkSafely(node);
        return result;
      };
    }
    // A graph that is being loaded has not given the node its values yet.
    requestAnimationFrame(() => checkSafely(node));
  },
  loadedGraphNode(node) {
    if (nodes.has(node)) checkSafely(node);
  },
  refreshComboInNodes() {
    nodes.forEach(checkSafely);
  },
});
