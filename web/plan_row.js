// One step of the list in Edit Plan: its name, prompt, text for the reader, and buttons.

import { area, findingLines, icon, make } from "./plan_elements.js";
import { stepCast } from "./plan_cast.js";
import { stepProgress } from "./plan_progress.js";
import { stepSettings } from "./plan_settings.js";
import { say } from "./words.js";

/** The row of a step: {element, update(shown, style, findings, members, cast)}, see stepProgress and stepCast. `earlier` are the steps before this one.
 *  `acts`: {edited()} after a text or the lock changed, {relocked()} to rebuild the list, {move(by)} and {remove()}. */
export function stepRow(step, { isFirst, isLast, earlier }, acts) {
  const row = make("div", "itp-step");
  const mark = () => row.classList.toggle("itp-empty", !step.prompt && !step.auxiliary_text);
  const edit = (field, isEmptyText) => (event) => {
    step[field] = event.target.value || (isEmptyText ? "" : null);
    mark();
    acts.edited();
  };
  const name = make("input");
  Object.assign(name, { value: step.step_name ?? "", placeholder: say("Name"), spellcheck: false });
  name.addEventListener("input", edit("step_name", true));
  const lockHelp = say("Lock: the step stays when the planner writes a new plan");
  const lock = icon(step.locked ? "pi-lock" : "pi-lock-open", lockHelp, () => {
    step.locked = !step.locked;
    acts.edited();
    acts.relocked();
  });
  lock.setAttribute("aria-pressed", String(Boolean(step.locked)));
  const settings = stepSettings(step, earlier, acts.edited);
  const head = make("div", "itp-head");
  head.append(
    make("span", "itp-number", `${step.step_number}.`),
    name,
    icon("pi-arrow-up", say("Move up"), () => acts.move(-1), isFirst),
    icon("pi-arrow-down", say("Move down"), () => acts.move(1), isLast),
    settings.toggle,
    lock,
    icon("pi-trash", say("Delete this step"), () => acts.remove())
  );
  const progress = stepProgress(step);
  const words = make("div", "itp-words");
  words.append(
    progress.state,
    area(step.prompt, say("Prompt; leave empty for a text-only step"), edit("prompt")),
    area(step.auxiliary_text, say("Text for the reader"), edit("auxiliary_text"))
  );
  const body = make("div", "itp-body");
  body.append(progress.picture, words);
  const found = make("div", "itp-findings");
  const present = stepCast(step, acts.edited);
  row.append(head, settings.summary, settings.panel, body, present.element, found);
  mark();
  const update = (shown, style, findings, members, cast) => {
    progress.update(shown, style);
    present.update(members, cast);
    found.replaceChildren(...findingLines(findings, step.step_number));
  };
  return { element: row, step, update };
}
