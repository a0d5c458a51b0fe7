// Edit Plan in the browser: the steps as a list over the node's `edits` text.
//
// Decision: the text is the only state. Every button and every key writes it at once, and whatever else changes it (typing,
// a loaded workflow, undo) is read back by the server and shown again, so the node is the same with and without this file.

import { api } from "../../scripts/api.js";
import { app } from "../../scripts/app.js";
import { area, button, icon, make, note } from "./plan_elements.js";
import { planText } from "./plan_outline.js";
import { heard, say } from "./words.js";

const NODE = "InterleaveEditPlan";
const DISPLAY = "interleave_plan";
const VIEW = "interleave_view";
const READ = "/interleave-thinker/plan";
const PAUSE = 250;
const LEAST_HEIGHT = 220;
const BAR_HEIGHT = 90;

/** The list over one node's `edits` widget. */
class PlanList {
  constructor(node, edits) {
    this.node = node;
    this.edits = edits;
    this.steps = [];
    this.madeFrom = [];
    this.fault = "";
    this.told = {};
    this.undo = null;
    this.reading = 0;
    this.element = make("div", "itp-plan");
    this.element.addEventListener("wheel", (event) => this.scroll(event), { passive: false });
    this.widget = node.addDOMWidget("steps", "interleave_plan", this.element, {
      serialize: false,
      hideOnZoom: true,
      getMinHeight: () => (this.isList ? LEAST_HEIGHT : BAR_HEIGHT),
      getMaxHeight: () => (this.isList ? undefined : BAR_HEIGHT)
    });
    this.widget.serialize = false;
    this.listenToText();
    this.show();
  }

  get view() {
    return this.node.properties?.[VIEW] === "text" ? "text" : "list";
  }

  get isList() {
    return this.view === "list" && !this.fault;
  }

  get isJson() {
    return /^\s*[[{]/.test(this.text);
  }

  get text() {
    return this.edits.value ?? "";
  }

  listenToText() {
    const callback = this.edits.callback;
    this.edits.callback = (...given) => {
      const result = callback?.apply(this.edits, given);
      if (!this.isWriting) this.readSoon();
      return result;
    };
    this.edits.element?.addEventListener("input", () => this.readSoon());
  }

  readSoon() {
    clearTimeout(this.timer);
    this.told.isNews = false;
    this.timer = setTimeout(() => this.read(), PAUSE);
  }

  /** Have the server read the text, and show what it says. */
  async read() {
    clearTimeout(this.timer);
    const turn = ++this.reading;
    const text = this.text;
    const answer = text.trim() ? await readPlan(text) : { plan: this.told.planned, passes: true };
    if (turn !== this.reading) return;
    this.fault = answer.error ?? "";
    if (!this.fault) {
      this.steps = (answer.plan?.execution_plan ?? []).map((step) => ({ ...step }));
      this.madeFrom = answer.plan?.made_from ?? [];
    }
    this.forms = answer;
    this.show();
  }

  /** What the node said when it ran. */
  hear(told) {
    this.told = { ...told, isNews: Boolean(told?.note) };
    this.read();
  }

  /** Write the steps into the text. With `change` said, it can be taken back. */
  write(change) {
    if (change) this.undo = { change, text: this.text };
    this.setText(planText(this.steps, this.madeFrom, this.isJson));
    this.fault = "";
    if (change) this.show();
  }

  setText(text) {
    this.isWriting = true;
    // What the node said was said of an older text; its result is not to be put over this one.
    this.told.isNews = false;
    this.reading++;
    clearTimeout(this.timer);
    this.edits.value = text;
    this.isWriting = false;
    app.graph?.setDirtyCanvas?.(true, true);
  }

  forgetUndo() {
    this.undo = null;
    this.element.querySelector(".itp-undo")?.remove();
  }

  takeBack() {
    this.setText(this.undo.text);
    this.undo = null;
    this.read();
  }

  renumber() {
    const first = Math.min(...this.steps.map((step) => step.step_number));
    this.steps.forEach((step, index) => (step.step_number = first + index));
  }

  add() {
    const last = this.steps.at(-1)?.step_number ?? 0;
    this.steps.push({ step_number: last + 1, step_name: "", instruction: null, prompt: null, auxiliary_text: null });
    this.write(say("Step {step} was added.", { step: last + 1 }));
    this.element.querySelector(".itp-step:last-child textarea")?.focus();
  }

  remove(step) {
    const number = step.step_number;
    this.steps = this.steps.filter((one) => one !== step);
    if (this.steps.length) {
      this.renumber();
      this.write(say("Step {step} was deleted.", { step: number }));
      return;
    }
    this.undo = { change: say("Step {step} was deleted.", { step: number }), text: this.text };
    this.setText("");
    this.read();
  }

  move(step, by) {
    const from = this.steps.indexOf(step);
    this.steps.splice(from, 1);
    this.steps.splice(from + by, 0, step);
    this.renumber();
    this.write(say("Step {step} was moved.", { step: from + 1 }));
  }

  /** The planner's newest plan; locked steps stay. */
  takePlanned() {
    const locked = this.steps.filter((step) => step.locked);
    this.undo = { change: say("This is the planner's plan."), text: this.text };
    if (locked.length) {
      const planned = this.told.planned.execution_plan.filter(
        (step) => !locked.some((one) => one.step_number === step.step_number)
      );
      this.steps = [...planned, ...locked].sort((one, other) => one.step_number - other.step_number);
      this.madeFrom = this.told.planned.made_from;
      this.undo.change = say("This is the planner's plan. Locked steps stayed.");
      this.setText(planText(this.steps, this.madeFrom, false));
    } else {
      this.setText("");
    }
    this.read();
  }

  /** What the node made of the edits and the planner's newest plan, to be edited further. */
  takeResult() {
    this.undo = { change: say("The new steps are in the list."), text: this.text };
    const { execution_plan: steps, made_from: madeFrom } = this.told.result;
    this.setText(planText(steps, madeFrom, this.isJson));
    this.read();
  }

  switchView() {
    this.node.properties[VIEW] = this.view === "list" ? "text" : "list";
    this.show();
  }

  switchForm() {
    this.setText(this.isJson ? this.forms.outline : this.forms.json_text);
    this.read();
  }

  scroll(event) {
    const list = this.element.querySelector(".itp-list");
    const scrolls = list && list.scrollHeight > list.clientHeight && list.contains(event.target);
    if (scrolls && !event.ctrlKey) event.stopPropagation();
    else app.canvas?.processMouseWheel?.(event);
  }

  show() {
    this.edits.hidden = this.isList;
    this.edits.options.hidden = this.isList;
    this.element.replaceChildren(this.bar(), ...this.notes(), ...(this.isList ? [this.list()] : []));
    app.graph?.setDirtyCanvas?.(true, true);
  }

  bar() {
    const bar = make("div", "itp-bar");
    const inList = this.view === "list";
    if (inList) {
      bar.append(button(say("Add step"), say("Add a step at the end."), () => this.add(), Boolean(this.fault)));
      const planned = this.told.planned;
      const help = planned
        ? say("Drop the edits and take the planner's newest plan; locked steps stay.")
        : say("Queue the graph once to have the planner's plan here.");
      bar.append(button(say("Planner's plan"), help, () => this.takePlanned(), !planned || !this.text.trim()));
    } else {
      const off = Boolean(this.fault) || !this.forms?.json_text;
      const name = this.isJson ? say("As outline") : say("As JSON");
      bar.append(button(name, say("Write the same plan in the other form."), () => this.switchForm(), off));
    }
    bar.append(make("div", "itp-space"));
    const view = inList ? [say("Edit as text"), say("Show the text that this list writes.")] : [say("Edit as list"), say("Show the steps as a list.")];
    bar.append(button(...view, () => this.switchView()));
    return bar;
  }

  notes() {
    const notes = [];
    if (this.fault) notes.push(note(this.fault, "itp-note itp-fault"));
    if (this.told.isNews) {
      const show = button(say("Show it here"), say("Put the new steps into the list."), () => this.takeResult());
      notes.push(note(heard(this.told.note), "itp-note", ...(this.told.stale && this.told.result ? [show] : [])));
    }
    if (this.undo) notes.push(note(this.undo.change, "itp-note itp-undo", button(say("Undo"), say("Take that back."), () => this.takeBack())));
    return notes;
  }

  list() {
    const list = make("div", "itp-list");
    if (!this.steps.length) {
      const hint = this.isPlanLinked()
        ? say("Queue the graph to see the planner's plan here, or add steps of your own.")
        : say("Add steps to write a plan by hand, or connect a Planner.");
      list.append(make("div", "itp-hint", hint));
    }
    this.steps.forEach((step, index) => list.append(this.row(step, index)));
    return list;
  }

  isPlanLinked() {
    return this.node.inputs?.some((input) => input.name === "plan" && input.link != null);
  }

  row(step, index) {
    const row = make("div", "itp-step");
    const mark = () => row.classList.toggle("itp-empty", !step.prompt && !step.auxiliary_text);
    const edit = (field, isEmptyText) => (event) => {
      step[field] = event.target.value || (isEmptyText ? "" : null);
      mark();
      this.forgetUndo();
      this.write();
    };
    const name = make("input");
    Object.assign(name, { value: step.step_name ?? "", placeholder: say("Name"), spellcheck: false });
    name.addEventListener("input", edit("step_name", true));
    const lock = icon(step.locked ? "pi-lock" : "pi-lock-open", say("Locked: stays as it is when the planner writes another plan."), () => {
      step.locked = !step.locked;
      this.forgetUndo();
      this.write();
      this.show();
    });
    lock.setAttribute("aria-pressed", String(Boolean(step.locked)));
    const head = make("div", "itp-head");
    head.append(
      make("span", "itp-number", `${step.step_number}.`),
      name,
      icon("pi-arrow-up", say("Move up."), () => this.move(step, -1), index === 0),
      icon("pi-arrow-down", say("Move down."), () => this.move(step, 1), index === this.steps.length - 1),
      lock,
      icon("pi-trash", say("Delete this step."), () => this.remove(step))
    );
    row.append(
      head,
      area(step.prompt, say("What to draw; empty draws nothing"), edit("prompt")),
      area(step.auxiliary_text, say("Text for the reader"), edit("auxiliary_text"))
    );
    mark();
    return row;
  }
}

async function readPlan(text) {
  try {
    const answer = await api.fetchApi(READ, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ text })
    });
    if (answer.status === 413) return { error: say("The text is too long for the list; edit it as text.") };
    return await answer.json();
  } catch (error) {
    return { error: say("The server does not read the text: {fault}", { fault: error.message }) };
  }
}

/** Call `then` after a method that the node may have already. */
function after(node, method, then) {
  const before = node[method];
  node[method] = function (...given) {
    const result = before?.apply(this, given);
    then(...given);
    return result;
  };
}

app.registerExtension({
  name: "InterleaveThinker.EditPlan",

  setup() {
    const style = make("link");
    Object.assign(style, { rel: "stylesheet", href: new URL("./edit_plan.css", import.meta.url).href });
    document.head.append(style);
  },

  nodeCreated(node) {
    if (node.comfyClass !== NODE) return;
    const edits = node.widgets?.find((widget) => widget.name === "edits");
    if (!edits || !node.addDOMWidget) return;
    const list = new PlanList(node, edits);
    node.setSize([Math.max(node.size[0], 420), Math.max(node.size[1], 480)]);
    after(node, "onConfigure", () => list.read());
    after(node, "onConnectionsChange", () => list.show());
    after(node, "onExecuted", (output) => list.hear(output?.[DISPLAY]?.[0]));
  }
});
