// Files written by Export and Save Story: a button on the node that opens them, and workflows in dropped GIFs.
//
// The button appears with the first result and is never saved, so it takes no place among a workflow's values. The host shows
// PDFs and images in the browser and offers everything else as a download; the button says which.

import { app } from "../../scripts/app.js";
import { api } from "../../scripts/api.js";
import { language, onDroppedFile } from "./host.js";
import { resolved } from "./languages.js";
import { waitingWords } from "./live/notice.js";
import { say } from "./words.js";

const NODES = ["InterleaveExport", "InterleaveSaveTrajectory"];
const AS_THE_INTERFACE = "as the interface";
const BUTTON = "interleave_open";
const SHOWN = [".pdf", ".png", ".gif", ".webp", ".mp4"];
const GIF_MARK = "interleave-thinker graph ";
const LARGEST_GIF = 256 * 1024 * 1024;

/** The address of a file in the output folder. */
export function addressOf({ filename, subfolder = "" }) {
  return api.apiURL(`/view?${new URLSearchParams({ filename, subfolder, type: "output" })}`);
}

/** Show a button that opens a file, or what the story waits for: nothing is written before. */
function offer(node, file, waiting) {
  if (!(file?.filename || waiting) || !node.addWidget) return;
  let button = node.widgets?.find((widget) => widget.name === BUTTON);
  if (!button) {
    button = node.addWidget("button", BUTTON, null, () => button.address && window.open(button.address, "_blank", "noopener"));
    button.serialize = false;
    button.options = { ...button.options, serialize: false };
  }
  button.address = file?.filename && addressOf(file);
  button.label = waiting ? waitingWords(waiting) : SHOWN.some((ending) => file.filename.endsWith(ending)) ? say("Open") : say("Download");
  node.setDirtyCanvas?.(true, true);
}

/** Send the current language for "as the interface"; the workflow keeps the choice. */
function sendLanguage(node) {
  const widget = node.widgets?.find((one) => one.name === "language");
  if (widget) widget.serializeValue = () => (widget.value === AS_THE_INTERFACE ? resolved(language()) : widget.value);
}

/** The comment of a GIF: after its marker, blocks that begin with their length. */
function commentOf(bytes) {
  const start = bytes.findIndex((byte, place) => byte === 0x21 && bytes[place + 1] === 0xfe && startsWithMark(bytes, place + 3));
  if (start < 0) return "";
  let text = "";
  for (let place = start + 2; bytes[place]; place += bytes[place] + 1)
    text += new TextDecoder().decode(bytes.subarray(place + 1, place + 1 + bytes[place]));
  return text;
}

function startsWithMark(bytes, place) {
  return [...GIF_MARK].every((letter, index) => bytes[place + index] === letter.charCodeAt(0));
}

/** The workflow in a GIF of this pack; undefined for any other file. */
async function workflowOf(file) {
  if (file?.type !== "image/gif" || file.size > LARGEST_GIF) return undefined;
  const comment = commentOf(new Uint8Array(await file.arrayBuffer()));
  if (!comment) return undefined;
  const { workflow } = JSON.parse(comment.slice(GIF_MARK.length));
  return workflow && JSON.parse(workflow);
}

app.registerExtension({
  name: "InterleaveThinker.Exports",
  setup() {
    onDroppedFile(async (file) => {
      const workflow = await workflowOf(file);
      if (workflow) await app.loadGraphData(workflow);
      return Boolean(workflow);
    });
  },
  nodeCreated(node) {
    if (!NODES.includes(node.comfyClass)) return;
    sendLanguage(node);
    const executed = node.onExecuted;
    node.onExecuted = function (output, ...values) {
      executed?.call(this, output, ...values);
      const file = output?.interleave_files?.[0];
      // Without it, Nodes 2.0 of older front ends take a video for a broken image.
      this.previewMediaType = file?.filename?.endsWith(".mp4") ? "video" : undefined;
      offer(this, file, output?.interleave_waiting?.[0]);
    };
  },
});
