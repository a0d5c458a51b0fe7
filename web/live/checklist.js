// The critic's answers to the items of a step's checklist. The user can judge each item.

import { say } from "../words.js";
import { iconButton, make, show } from "./elements.js";

const TICKS = { true: "✓", false: "✗", null: "?" };
const TONES = { true: "good", false: "bad", null: "quiet" };

export class ChecklistView {
  /** `judge(text, value)` records whether an item is true. */
  constructor(judge) {
    Object.assign(this, { judge, shown: "", rows: [] });
    this.list = make("ul", "it-items");
    this.element = make("div", "", { hidden: true }, make("p", "it-label", {}, say("Checklist")), this.list);
  }

  /** Show the items of an attempt and the user's `word` on it, if there is one. */
  update(items, word) {
    show(this.element, items.length > 0);
    const text = JSON.stringify(items);
    if (this.shown !== text) {
      this.shown = text;
      this.rows = items.map((item) => this.#row(item));
      this.list.replaceChildren(...this.rows.map((row) => row.element));
    }
    const said = new Map((word?.items ?? []).map((one) => [one.text, one.true]));
    for (const { item, up, down } of this.rows) {
      up.setAttribute("aria-pressed", String(said.get(item.text) === true));
      down.setAttribute("aria-pressed", String(said.get(item.text) === false));
    }
  }

  #row(item) {
    const up = iconButton("pi-check", say("This is true (recorded as feedback for training)"), () => this.judge(item.text, true));
    const down = iconButton("pi-times", say("This is not true (recorded as feedback for training)"), () => this.judge(item.text, false));
    const tick = make("span", "it-tick", {}, TICKS[item.passed]);
    tick.dataset.tone = TONES[item.passed];
    const percent = item.probability === null ? null : make("span", "it-quiet", {}, `${Math.round(item.probability * 100)} %`);
    const why = item.probability === null ? say("no answer") : say("cannot judge this");
    const unknown = item.passed === null ? make("span", "it-quiet", {}, why) : null;
    const element = make("li", "it-item", {}, tick, make("span", "it-item-text", {}, item.text), percent, unknown, up, down);
    return { item, up, down, element };
  }
}
