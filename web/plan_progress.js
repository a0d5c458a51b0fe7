// The state of a step in its last run: its kept image and its result, next to its texts.
//
// The run is that of the loop that the plan leads to. A step that was edited since is marked.

import { doing } from "./live/card.js";
import { make } from "./plan_elements.js";
import { heard, say } from "./words.js";

const CUT = " …";
const ENDS = /[.,;:!?。，；：！？、]$/;
const SMALL = 256;

/** The parts of a row: {picture, state, update(shown, style)}; `shown` is {state, view} of the run, undefined without one. */
export function stepProgress(step) {
  const image = make("img");
  Object.assign(image, { alt: "", decoding: "async" });
  image.addEventListener("error", () => image.removeAttribute("src"));
  const picture = make("button", "itp-picture");
  Object.assign(picture, { type: "button", hidden: true });
  picture.append(image);
  const dot = make("span", "itp-dot");
  dot.setAttribute("aria-hidden", "true");
  const word = make("span");
  const state = make("div", "itp-state");
  state.append(dot, word);
  let open;
  picture.addEventListener("click", () => open?.());

  function update(shown, style) {
    const run = shown?.state;
    const drawn = run?.steps.get(step.step_number);
    const found = drawn && run.imageOf(step.step_number);
    const isOld = Boolean(drawn) && drawn.status !== "waiting" && !isDrawnAs(drawn.prompt, inStyle(step.prompt ?? "", style));
    setText(word, !drawn ? say("planned") : isOld ? say("changed since it was generated") : wordOf(drawn, run));
    dot.dataset.tone = !drawn || isOld ? "quiet" : drawn.status === "running" && run.running ? "busy" : drawn.tone;
    picture.hidden = !found;
    picture.classList.toggle("itp-old", isOld);
    open = () => shown.view.openStep(step.step_number);
    if (!found) return;
    const label = say("Step {step} in full size", { step: step.step_number });
    Object.assign(picture, { title: label });
    picture.setAttribute("aria-label", label);
    const url = shown.view.pictures.small(found.digest, SMALL);
    if (image.src !== url) image.src = url;
  }

  return { picture, state, update };
}

function wordOf(drawn, run) {
  const made = (run.attempts.get(drawn.step) ?? []).length;
  return doing(drawn.status, made, run.running) ?? heard(drawn.sentence);
}

/** A prompt with the style before it, as in backend/types.py. */
function inStyle(prompt, style) {
  const sentence = style.trim();
  if (!prompt || !sentence || prompt.startsWith(sentence)) return prompt;
  return `${sentence}${ENDS.test(sentence) ? "" : "."} ${prompt}`;
}

/** Whether a prompt is the generated one, of which only the beginning may be known. */
function isDrawnAs(drawn, prompt) {
  return drawn === prompt || (drawn.endsWith(CUT) && prompt.startsWith(drawn.slice(0, -CUT.length)));
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
