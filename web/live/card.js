// One step in the row of steps: its image, which opens in full size, and its name and state, which select its attempts.

import { heard, say } from "../words.js";
import { make, picture, set, setText, show } from "./elements.js";

export class Card {
  /** `acts`: {select(step), open(step)}. */
  constructor(step, acts) {
    this.step = step;
    this.image = make("img", "it-card-image", { alt: "", loading: "lazy", decoding: "async", hidden: true });
    this.blank = make("span", "it-card-blank");
    this.frame = picture("it-card-frame", () => acts.open(step), this.image, this.blank);
    this.dot = make("span", "it-dot");
    this.dot.setAttribute("aria-hidden", "true");
    this.name = make("span", "it-card-name");
    this.state = make("span", "it-card-state");
    this.head = make(
      "button",
      "it-card-head",
      { type: "button", onclick: () => acts.select(step) },
      make("span", "it-card-title", {}, this.dot, this.name),
      this.state,
    );
    this.element = make("li", "it-card", {}, this.frame, this.head);
  }

  update(state, pictures, selected) {
    const shown = state.steps.get(this.step);
    const image = state.imageOf(this.step);
    const made = (state.attempts.get(this.step) ?? []).length;
    this.head.setAttribute("aria-current", selected ? "step" : "false");
    this.element.classList.toggle("it-current", selected);
    this.element.dataset.status = shown.status;
    this.dot.dataset.tone = shown.status === "running" && state.running ? "busy" : shown.tone;
    setText(this.name, `${this.step}. ${shown.name}`);
    const sentence = heard(shown.sentence);
    setText(this.state, doing(shown.status, made, state.running) ?? sentence);
    set(this.head, "title", [shown.name, sentence, shown.text].filter(Boolean).join("\n"));
    const label = say("Step {step} in full size", { step: this.step });
    if (this.frame.title !== label) {
      this.frame.title = label;
      this.frame.setAttribute("aria-label", label);
    }
    set(this.frame, "disabled", !image);
    show(this.image, Boolean(image));
    show(this.blank, !image);
    setText(this.blank, shown.prompt ? "" : shown.text);
    if (image) set(this.image, "src", pictures.small(image.digest));
  }
}

/** The state of an unfinished step; undefined for a finished one. */
export function doing(status, made, running) {
  if (status === "waiting") return running ? say("waiting") : say("not reached");
  if (status !== "running") return undefined;
  if (!running) return say("stopped");
  return made ? say("attempt {number}…", { number: made }) : say("starting…");
}
