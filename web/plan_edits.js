// Edits of a plan's steps: every change updates the node's `edits` text at once and can be undone once.
//
// The text is the only state. Other changes of it (typing, a loaded workflow, undo) are parsed by the server, so the node works
// in the same way without this file.

import { readPlan } from "./plan_reading.js";
import { planText } from "./plan_outline.js";
import { say } from "./words.js";

const PAUSE = 250;

/** The steps of one `edits` widget; calls `show` after every change, and `checked` after new findings alone. `otherCast()`
 *  returns the members of the cast that are not in the text, null if there are none. */
export class PlanEdits {
  constructor(widget, show, checked, otherCast) {
    this.widget = widget;
    this.otherCast = otherCast;
    this.show = show;
    this.checked = checked;
    this.findings = [];
    this.casts = new Map();
    this.steps = [];
    this.madeFrom = [];
    this.style = "";
    this.cast = [];
    this.fault = "";
    this.display = {};
    this.undo = null;
    this.reading = 0;
    this.shown = "";
    this.listenToText();
  }

  get isJson() {
    return /^\s*[[{]/.test(this.text);
  }

  get text() {
    return this.widget.value ?? "";
  }

  listenToText() {
    const callback = this.widget.callback;
    this.widget.callback = (...given) => {
      const result = callback?.apply(this.widget, given);
      if (!this.isWriting) this.readSoon();
      return result;
    };
    this.widget.element?.addEventListener("input", () => this.readSoon());
  }

  readSoon() {
    clearTimeout(this.timer);
    this.display.isNews = false;
    this.timer = setTimeout(() => this.read(), PAUSE);
  }

  /** Have the server parse the text, and show the result. */
  async read() {
    clearTimeout(this.timer);
    const turn = ++this.reading;
    const text = this.text;
    const { planned, findings, casts } = this.display;
    const answer = text.trim() ? await this.ask(text) : { plan: planned, findings, casts };
    if (turn !== this.reading) return;
    this.fault = answer.error ?? "";
    this.findings = answer.findings ?? [];
    if (!this.fault) {
      const steps = (answer.plan?.execution_plan ?? []).map((step) => ({ ...step }));
      // Equal steps are kept as objects, so open settings stay open.
      if (planText(steps, [], false) !== planText(this.steps, [], false)) this.steps = steps;
      this.madeFrom = answer.plan?.made_from ?? [];
      this.style = answer.plan?.style ?? "";
      this.cast = answer.plan?.cast ?? [];
      this.findCasts(answer.casts);
    }
    this.forms = answer;
    // A list that is built again would lose the focus, and a click that has begun.
    const state = JSON.stringify([text, answer, this.display]);
    const isNew = state !== this.shown;
    this.shown = state;
    if (isNew) this.show();
    else this.checked();
  }

  ask(text) {
    const others = this.otherCast()?.map(({ name, kind, traits }) => ({ name, kind, traits })) ?? null;
    return readPlan(text, this.display.request, this.display.planned_style, others);
  }

  /** The cast outside of the text has changed: have the server read the text with it, once the changes end. */
  castChanged() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.read(), PAUSE);
  }

  /** Have the server check the text that the list wrote, without building the list again. */
  checkSoon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(async () => {
      const turn = ++this.reading;
      const { findings = [], casts, error } = await this.ask(this.text);
      if (turn !== this.reading) return;
      this.findings = findings;
      if (!error) this.findCasts(casts);
      this.checked();
    }, PAUSE);
  }

  /** Remember who is in each step by its prompt. */
  findCasts(casts = []) {
    const found = new Map(casts.map(({ step, ...cast }) => [step, cast]));
    this.casts = new Map(this.steps.map((step) => [step, found.get(step.step_number)]));
  }

  /** All members: those outside of the text, replaced by the text's members of the same name, then the others of the text. */
  get members() {
    const own = new Map(this.cast.map((one) => [one.name.toLowerCase(), one]));
    const joined = (this.otherCast() ?? []).map((one) => {
      const found = own.get(one.name.toLowerCase());
      own.delete(one.name.toLowerCase());
      return found ? { thumbnail: one.thumbnail, ...found } : one;
    });
    return [...joined, ...own.values()];
  }

  /** Process the display of the executed node. */
  update(display) {
    this.display = { ...display, isNews: Boolean(display?.note) };
    this.read();
  }

  /** Write the steps into the text. With a description of the `change`, it can be undone. */
  write(change) {
    if (change) this.undo = { change, text: this.text };
    this.setText(planText(this.steps, this.madeFrom, this.isJson, this.style, this.cast));
    this.fault = "";
    if (change) this.show();
    this.checkSoon();
  }

  setText(text) {
    this.isWriting = true;
    // The node's message is about an older text, and its result must not replace this one.
    this.display.isNews = false;
    this.reading++;
    this.shown = "";
    clearTimeout(this.timer);
    this.widget.value = text;
    this.isWriting = false;
  }

  /** Front ends that lay out nodes themselves update a widget when its value is set. */
  touch() {
    this.isWriting = true;
    const { text } = this;
    // Some front ends update a widget only if its value differs.
    this.widget.value = `${text} `;
    this.widget.value = text;
    this.isWriting = false;
  }

  takeBack() {
    this.setText(this.undo.text);
    this.undo = null;
    this.read();
  }

  /** Number the steps consecutively; a step that edits another step's image keeps that source. */
  renumber() {
    const first = Math.min(...this.steps.map((step) => step.step_number));
    const numbers = new Map(this.steps.map((step, index) => [step.step_number, first + index]));
    this.steps.forEach((step, index) => {
      step.step_number = first + index;
      const source = step.settings?.source;
      if (numbers.has(source)) step.settings = { ...step.settings, source: numbers.get(source) };
    });
  }

  add() {
    const last = this.steps.at(-1)?.step_number ?? 0;
    this.steps.push({ step_number: last + 1, step_name: "", instruction: null, prompt: null, auxiliary_text: null });
    this.write(say("Step {step} was added.", { step: last + 1 }));
  }

  remove(step) {
    const change = say("Step {step} was deleted.", { step: step.step_number });
    this.steps = this.steps.filter((one) => one !== step);
    if (this.steps.length) {
      this.renumber();
      this.write(change);
      return;
    }
    this.undo = { change, text: this.text };
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

  /** Use the planner's latest plan; locked steps stay. */
  takePlanned() {
    const locked = this.steps.filter((step) => step.locked);
    this.undo = { change: say("The planner's plan was loaded."), text: this.text };
    if (locked.length) {
      const planned = this.display.planned.execution_plan.filter(
        (step) => !locked.some((one) => one.step_number === step.step_number)
      );
      this.steps = [...planned, ...locked].sort((one, other) => one.step_number - other.step_number);
      this.madeFrom = this.display.planned.made_from;
      this.undo.change = say("The planner's plan was loaded. Locked steps stayed.");
      this.setText(planText(this.steps, this.madeFrom, false, this.style, this.cast));
    } else {
      this.setText("");
    }
    this.read();
  }

  /** Load the merged plan from the node, to edit it further. */
  takeResult() {
    this.undo = { change: say("The new steps were loaded."), text: this.text };
    const { execution_plan: steps, made_from: madeFrom, style, cast } = this.display.result;
    this.setText(planText(steps, madeFrom, this.isJson, style, cast));
    this.read();
  }

  switchForm() {
    this.setText(this.isJson ? this.forms.outline : this.forms.json_text);
    this.read();
  }
}
