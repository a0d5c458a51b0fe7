// Elements of the page that the live view does not have.

import { make, setText, textButton } from "../web/live/elements.js";
import { say } from "../web/words.js";

/** A labelled field around an input. */
export function field(label, input) {
  return make("label", "app-field", {}, make("span", "", {}, label), input);
}

export function selectOf(label, options, chosen) {
  const select = make("select", "it-select", {}, ...options.map(([value, name]) => make("option", "", { value }, name)));
  select.value = chosen;
  return { select, element: field(label, select) };
}

export function inputOf(label, properties) {
  const input = make("input", "it-search", properties);
  return { input, element: field(label, input) };
}

/** A command in a box, with a button that copies it. */
export function commandBox(command) {
  const code = make("code", "app-command", { tabIndex: 0 }, command);
  const copy = textButton(say("Copy"), "", async () => {
    try {
      await navigator.clipboard.writeText(command);
      setText(copy, say("Copied"));
    } catch {
      // Without HTTPS, browsers let no page copy: the user copies the selection.
      getSelection().selectAllChildren(code);
    }
  });
  return make("div", "app-row app-copied", {}, code, copy);
}

/** A time in the language of the page, such as "2 minutes". */
export function timeOf(seconds) {
  const [unit, value] = seconds < 90 ? ["second", seconds] : ["minute", seconds / 60];
  const style = { style: "unit", unit, unitDisplay: "long", maximumFractionDigits: 0 };
  return new Intl.NumberFormat(document.documentElement.lang, style).format(Math.max(1, Math.round(value)));
}

const TITLE = 60;

/** The first sentence of a request, or its first words. */
export function titleOf(request) {
  const sentence = request.replaceAll("<image>", " ").trim().split(/(?<=[.!?])\s+|(?<=[。！？])/u)[0].replace(/\.$/, "");
  if (sentence.length <= TITLE) return sentence || say("Story");
  return `${sentence.slice(0, TITLE).replace(/\s+\S*$/, "")} …`;
}
