// The plan of a story that waits for its approval: prompts and captions, which the user may change first.

import { iconButton, make, setText, show, textButton } from "../web/live/elements.js";
import { planText } from "../web/plan_outline.js";
import { heard, say } from "../web/words.js";
import { field, inputOf } from "./elements.js";

export class PlanPart {
  constructor(server, run) {
    Object.assign(this, { server, run, steps: [] });
    this.style = inputOf(say("Style"), { maxLength: 2000, title: say("Put before every prompt, for the image model and the critic.") });
    this.list = make("ol", "app-plan-steps");
    this.findings = make("ul", "app-findings");
    const add = textButton(say("Add step"), say("Add a step at the end"), () => this.#add());
    this.element = make("section", "app-plan", { hidden: true }, this.style.element, this.findings, this.list, add);
    this.element.setAttribute("aria-label", say("Edit plan"));
  }

  /** Show the plan that the server has. */
  take({ plan, findings }) {
    const { execution_plan: steps, style = "", cast = [], made_from: madeFrom = [] } = plan;
    Object.assign(this, { steps, cast, madeFrom });
    this.style.input.value = style;
    this.findings.replaceChildren(...findings.map((one) => make("li", "", {}, `${one.step === null ? "" : `${one.step}. `}${heard(one.message)}`)));
    show(this.findings, findings.length > 0);
    this.#draw();
    this.before = this.text;
  }

  /** The plan as the server reads it. Steps have no numbers, since the server counts them. */
  get text() {
    const steps = this.steps.map(({ step_number, ...step }) => step);
    return planText(steps, this.madeFrom, true, this.style.input.value.trim(), this.cast);
  }

  get isChanged() {
    return !this.element.hidden && this.before !== undefined && this.text !== this.before;
  }

  #draw() {
    this.list.replaceChildren(...this.steps.map((step, index) => this.#row(step, index)));
  }

  #row(step, index) {
    const edit = (name, isEmptyText) => (event) => (step[name] = event.target.value || (isEmptyText ? "" : null));
    const name = make("input", "it-search", { value: step.step_name ?? "", placeholder: say("Name"), oninput: edit("step_name", true) });
    name.setAttribute("aria-label", say("Name"));
    const area = (of, label) => field(label, grown(make("textarea", "it-textarea", { rows: 2, value: step[of] ?? "", maxLength: 20000, oninput: edit(of) })));
    const up = iconButton("pi-arrow-up", say("Move up"), () => this.#move(index, -1));
    const down = iconButton("pi-arrow-down", say("Move down"), () => this.#move(index, 1));
    const remove = iconButton("pi-trash", say("Delete this step"), () => this.#change((steps) => steps.splice(index, 1)));
    up.disabled = index === 0;
    down.disabled = index === this.steps.length - 1;
    remove.disabled = this.steps.length === 1;
    const head = make("div", "app-row app-plan-head", {}, make("b", "", {}, `${index + 1}.`), name, up, down, remove);
    return make("li", "", {}, head, area("prompt", say("Prompt; leave empty for a text-only step")), area("auxiliary_text", say("Text for the reader")));
  }

  #move(index, by) {
    this.#change((steps) => steps.splice(index + by, 0, ...steps.splice(index, 1)));
  }

  #add() {
    this.#change((steps) => steps.push({ step_name: "", instruction: null, prompt: null, auxiliary_text: null }));
    this.list.lastChild.querySelector("textarea").focus();
  }

  #change(act) {
    act(this.steps);
    this.#draw();
  }
}

/** Let a text area be as high as its text. */
function grown(area) {
  const grow = () => {
    area.style.height = "auto";
    area.style.height = `${area.scrollHeight + 2}px`;
  };
  area.addEventListener("input", grow);
  new ResizeObserver((_, observer) => (grow(), observer.disconnect())).observe(area);
  return area;
}
