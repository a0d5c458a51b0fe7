// What waits for the next run, in a line with a button that starts it: pictures that a person chose, steps that are to be drawn
// again.

import { say } from "../words.js";
import { make, setText, show, textButton } from "./elements.js";

export class Notice {
  /** `again()` queues the graph. */
  constructor(again) {
    this.pending = make("span");
    this.pending.setAttribute("role", "status");
    this.again = textButton(say("Run again"), say("Queue the graph: only what follows from it is drawn"), again);
    this.element = make("div", "it-notice", { hidden: true }, this.pending, this.again);
  }

  /** `queued`: the run that takes it over is in the queue already. */
  update(state, queued) {
    const chosen = Object.entries(state.choices).filter(([step, digest]) => isOpen(state, Number(step), digest));
    const freed = state.order.filter((step) => state.steps.get(step)?.picked && !(step in state.choices));
    const waiting = state.redrawsWaiting.filter((step) => !state.isAt(step));
    const steps = waiting.length ? waiting : [...chosen.map(([step]) => Number(step)), ...freed];
    show(this.element, steps.length > 0 && (queued || !state.running));
    show(this.again, !queued);
    if (waiting.length) setText(this.pending, redrawWords(queued, waiting));
    else if (steps.length) setText(this.pending, pendingWords(chosen.length > 0, steps));
  }
}

/** Whether a picture was chosen that is not the step's result yet. */
function isOpen(state, step, digest) {
  const attempts = state.attempts.get(step) ?? [];
  const kept = attempts[state.steps.get(step)?.chosen];
  return attempts.some((one) => one?.image?.digest === digest) && kept?.image?.digest !== digest;
}

/** What the next run takes over: a person's choices, or steps that are the critic's again. */
function pendingWords(isChoice, steps) {
  const values = { step: steps[0], steps: steps.join(", ") };
  if (isChoice && steps.length === 1) return say("Your choice for step {step} is taken with the next run.", values);
  if (isChoice) return say("Your choice for steps {steps} is taken with the next run.", values);
  if (steps.length === 1) return say("The critic chooses step {step} again with the next run.", values);
  return say("The critic chooses steps {steps} again with the next run.", values);
}

/** Where another try that was asked for stands. */
function redrawWords(queued, steps) {
  const values = { steps: steps.join(", ") };
  if (queued) return say("Queued: step {steps} is drawn again, and what follows from it.", values);
  return say("Step {steps} is drawn again with the next run.", values);
}
