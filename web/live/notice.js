// Lines about the whole run: what the story check found; and, with buttons that start the next run, what it waits for or lacks,
// images that the user chose, and steps to redraw.

import { say } from "../words.js";
import { make, setText, show, textButton } from "./elements.js";

export class Notice {
  /** `again()` queues the story; `decide(waiting, skip)` approves what the run waits for, or skips the step; `edit()` goes to the plan. */
  constructor(again, decide, edit) {
    this.pending = make("span");
    this.pending.setAttribute("role", "status");
    this.again = textButton(say("Run again"), say("Queue only this story; images are generated only where they are missing or depend on a change"), again);
    this.approve = textButton(say("Approve"), say("Use this and continue the story"), () => decide(this.paused, false));
    this.skip = textButton(say("Skip step"), say("Continue without an image for this step; the next step edits the image before it"), () => decide(this.paused, true));
    this.edit = textButton(say("Edit plan"), say("Go to Edit Plan: change the steps that are not generated yet, and queue the graph; approved steps stay"), edit);
    const buttons = make("div", "it-notice-acts", {}, this.approve, this.skip, this.edit, this.again);
    this.element = make("div", "it-notice", { hidden: true }, this.pending, buttons);
  }

  /** `queued`: the run that will take it over is already queued. `isEditable`: the plan comes from an Edit Plan. */
  update(state, queued, isEditable) {
    const chosen = Object.entries(state.choices).filter(([step, digest]) => isOpen(state, Number(step), digest));
    const freed = state.order.filter((step) => state.steps.get(step)?.picked && !(step in state.choices));
    const waiting = state.redrawsWaiting.filter((step) => !state.isAt(step));
    const steps = waiting.length ? waiting : [...chosen.map(([step]) => Number(step)), ...freed];
    const paused = (this.paused = state.waiting);
    const asks = paused && !queued && !steps.length;
    show(this.approve, Boolean(asks && paused.digest));
    show(this.skip, Boolean(asks && paused.step !== null));
    show(this.edit, Boolean(asks && isEditable));
    const decided = !paused && state.about.waiting;
    const ended = paused ? [waitingWords(paused)] : decided ? decidedWords(queued, steps) : lackWords(state.about.missing ?? {});
    const lacks = state.running ? [] : ended;
    show(this.element, lacks.length > 0 || (steps.length > 0 && (queued || !state.running)));
    show(this.again, !queued && !(asks && paused.digest));
    const pending = waiting.length ? [redrawWords(queued, waiting)] : steps.length ? [pendingWords(chosen.length > 0, steps)] : [];
    setText(this.pending, [...lacks, ...pending].join(" "));
  }
}

/** Whether the user chose an image that is not yet the step's result. */
function isOpen(state, step, digest) {
  const attempts = state.attempts.get(step) ?? [];
  const kept = attempts[state.steps.get(step)?.chosen];
  return attempts.some((one) => one?.image?.digest === digest) && kept?.image?.digest !== digest;
}

/** Sentence about what the run waits for. */
export function waitingWords({ step, digest }) {
  if (step === null) return say("The story waits for your approval of the plan.");
  if (!digest) return say("Step {step} has no image: run again, or skip it.", { step });
  return say("Step {step} waits for you: approve it, redraw it, or use another attempt.", { step });
}

/** Sentence about a run whose wait the user has ended; nothing if a choice or a redraw says more. */
function decidedWords(queued, steps) {
  if (steps.length) return [];
  return [queued ? say("Queued: the story continues.") : say("You have decided: the story continues with the next run.")];
}

/** Sentences about what a finished run lacks; empty if it is complete. */
function lackWords(missing) {
  const words = {
    "not reached": (values) => say("Steps not reached: {steps}.", values),
    "not drawn": (values) => say("Steps without an image: {steps}.", values),
    "out of time": (values) => say("Steps that ran out of time: {steps}.", values),
    "not judged": (values) => say("Steps that could not be judged: {steps}.", values),
    "attempts failed": (values) => say("Steps with failed attempts: {steps}.", values),
    cancelled: (values) => say("Steps cancelled: {steps}.", values),
  };
  const said = Object.entries(missing).map(([lack, steps]) => words[lack]?.({ steps: ranges(steps) }));
  return said.length ? [say("This story is not complete."), ...said.filter(Boolean)] : [];
}

/** Increasing numbers as people write them: 2, 5–8. */
function ranges(numbers) {
  const pieces = [];
  for (const number of numbers) {
    const piece = pieces.at(-1);
    if (piece?.[1] === number - 1) piece[1] = number;
    else pieces.push([number, number]);
  }
  return pieces.map(([first, last]) => (first === last ? first : `${first}–${last}`)).join(", ");
}

/** Sentence about choices for the next run, or steps returned to the critic. */
function pendingWords(isChoice, steps) {
  const values = { step: steps[0], steps: steps.join(", ") };
  if (isChoice && steps.length === 1) return say("Your choice for step {step} takes effect with the next run.", values);
  if (isChoice) return say("Your choice for steps {steps} takes effect with the next run.", values);
  if (steps.length === 1) return say("The critic chooses step {step} again with the next run.", values);
  return say("The critic chooses steps {steps} again with the next run.", values);
}

/** Sentence about requested redraws. */
function redrawWords(queued, steps) {
  const values = { steps: steps.join(", ") };
  if (queued) return say("Queued: step {steps} and the steps that depend on it are generated again.", values);
  return say("Step {steps} is generated again with the next run.", values);
}

const FOUND = {
  identity: (values) => say("Story check, identity, attempt {number}: {text}", values),
  state: (values) => say("Story check, state, attempt {number}: {text}", values),
  order: (values) => say("Story check, order, attempt {number}: {text}", values),
  style: (values) => say("Story check, style, attempt {number}: {text}", values),
};

/** What the story check found: one line per finding, and the step that is generated again because of it. */
export class StoryCheckView {
  /** `select(step)` shows the attempts of a step. */
  constructor(select) {
    this.select = select;
    this.result = make("p", "it-check-result");
    this.result.setAttribute("role", "status");
    this.list = make("ul", "it-check-findings");
    this.element = make("div", "it-check", { hidden: true }, this.list, this.result);
  }

  update(state) {
    const { check } = state;
    show(this.element, Boolean(check));
    if (check) setText(this.result, resultWords(check, state.running));
    if (check === this.shown) return;
    this.shown = check;
    const findings = check?.findings ?? [];
    const lines = findings.map((one) => make("li", "", {}, this.#finding(one, state)));
    if (check?.more) lines.push(make("li", "", {}, say("More findings: {number}.", { number: check.more })));
    this.list.replaceChildren(...lines);
    show(this.list, lines.length > 0);
  }

  /** A finding as a button that shows its step. */
  #finding({ step, attempt, kind, problem }, state) {
    const name = state.steps.get(step)?.name ?? "";
    const text = FOUND[kind]({ number: attempt, text: problem });
    const title = make("span", "it-check-step", {}, `${step}. ${name}`);
    return make("button", "it-check-finding", { type: "button", onclick: () => this.select(step) }, title, " ", text);
  }
}

const PARTS = { planner: () => say("Planner"), generator: () => say("Generator"), critic: () => say("Critic") };

/** What planner, generator and critic of an ended run needed, folded, the longest time first. */
export class TimesView {
  constructor() {
    this.table = make("table");
    this.element = make("details", "it-times", { hidden: true }, make("summary", "it-label", {}, say("Time")), this.table);
  }

  update({ about: { times = {} } }) {
    const parts = Object.entries(times);
    show(this.element, parts.length > 0);
    if (times === this.shown || !parts.length) return;
    this.shown = times;
    const row = (cell, ...texts) => make("tr", "", {}, ...texts.map((text) => make(cell, "", {}, text)));
    const number = (count) => (count ? count.toLocaleString() : "");
    const rows = parts.map(([part, { seconds, read, written }]) =>
      row("td", PARTS[part](), say("{seconds} s", { seconds: seconds.toFixed(1) }), number(read), number(written)),
    );
    this.table.replaceChildren(row("th", "", say("Time"), say("Tokens read"), say("Tokens written")), ...rows);
  }
}

function resultWords({ findings, reopened, warning }, running) {
  if (warning) return say("The story was not checked: {text}", { text: warning });
  if (reopened !== null) {
    if (running) return say("Step {step} is generated again, then the later steps that depend on it.", { step: reopened });
    return say("Step {step} was generated again, with the later steps that depend on it.", { step: reopened });
  }
  return findings.length ? say("No step is generated again.") : say("Story check: every image fits the story.");
}
