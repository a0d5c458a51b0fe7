// The form of a new story: its request and images, the settings of its plan, its models, and when it waits for the user.

import { make, set, setText, show, textButton } from "../web/live/elements.js";
import { say } from "../web/words.js";
import { commandBox, inputOf, selectOf } from "./elements.js";
import { Uploads } from "./uploads.js";

const DRAFT = "interleave-draft";
const ROLES = ["planner", "critic", "generator"];

/** The choices of when a story waits; the values are the server's. */
export function pauses() {
  return [
    ["never", say("Never")],
    ["after the plan", say("After the plan")],
    ["at rejected steps", say("At rejected images")],
    ["every step", say("At every step")],
  ];
}

function captions() {
  return [
    ["as requested", say("As requested")],
    ["none", say("None")],
    ["short", say("A short sentence")],
    ["paragraph", say("A paragraph")],
  ];
}

export class StoryForm {
  /** `offer`: what the page offers; `start(story)`: starts a story, asynchronous. */
  constructor(offer, start) {
    Object.assign(this, { offer, start });
    const { settings } = offer;
    this.text = make("textarea", "it-textarea app-request", { rows: 6, maxLength: 20000, required: true, spellcheck: true });
    this.text.value = kept() || "";
    this.text.addEventListener("input", () => {
      keep(this.text.value);
      this.#endExample();
    });
    this.text.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.form.requestSubmit();
    });
    this.uploads = new Uploads();
    const example = textButton(say("Use the example"), "", () => this.#useExample());
    this.exampleSeed = make("p", "it-quiet app-seed", { hidden: true }, say("The example uses seed {number}.", { number: offer.example.seed }));
    this.models = new Map(ROLES.map((role) => [role, this.#modelSelect(role)]));
    this.steps = numberOf(say("Steps"), settings.step_count, say("The planner decides"));
    this.captions = selectOf(say("Captions"), captions(), settings.captions.value);
    this.style = inputOf(say("Style"), { value: settings.style.value, maxLength: 2000, title: say("Put before every prompt, for the image model and the critic.") });
    this.size = inputOf(say("Size"), { pattern: "[0-9]{2,4}x[0-9]{2,4}", placeholder: "1024x768" });
    this.pause = selectOf(say("Wait for my approval"), pauses(), settings.pause.value);
    this.attempts = numberOf(say("Attempts per step"), settings.max_attempts);
    this.seed = numberOf(say("Seed"), settings.seed);
    this.button = make("button", "it-button app-main", { type: "submit" }, say("Start the story"));
    this.error = make("div", "app-error", { hidden: true });
    this.error.setAttribute("role", "alert");
    this.toy = make("div", "app-toy", {}, say("The tiny world is a toy: it knows few words and simple shapes, and needs no download."));
    if (offer.command) this.toy.append(this.#commandFold());
    const story = make("details", "app-more", {}, make("summary", "", {}, say("Settings of the story")));
    story.append(...[this.pause, this.steps, this.captions, this.style, this.size].map(({ element }) => element));
    const more = make("details", "app-more", {}, make("summary", "", {}, say("Models, attempts and seed")));
    more.append(...[...this.models.values(), this.attempts, this.seed].map(({ element }) => element));
    this.form = make(
      "form",
      "app-form",
      { onsubmit: (event) => this.#submit(event) },
      make("label", "app-field", {}, make("span", "", {}, say("What is the story about?")), this.text),
      this.uploads.element,
      make("div", "app-row", {}, this.button, this.uploads.button, example),
      this.exampleSeed,
      this.error,
      this.toy,
      story,
      more,
    );
    this.uploads.listenTo(this.form);
    this.#showModels();
  }

  /** While a story is being generated, no other one can start. */
  update(busy) {
    this.busy = busy;
    set(this.button, "disabled", busy);
    setText(this.button, busy ? say("A story is being generated") : say("Start the story"));
  }

  #commandFold() {
    const summary = make("summary", "", {}, say("Use real models"));
    return make("details", "", {}, summary, make("p", "", {}, say("Stop the app with Ctrl-C, and start it with:")), commandBox(this.offer.command));
  }

  #modelSelect(role) {
    const labels = { planner: say("Planner"), critic: say("Critic"), generator: say("Image model") };
    const offers = this.offer.models[role];
    const nameOf = (one) => (one.toy ? say("Tiny world (toy)") : one.name === "none" ? say("None: images are not judged") : one.label);
    const made = selectOf(labels[role], offers.map((one) => [one.name, nameOf(one)]), offers[0].name);
    made.select.addEventListener("change", () => this.#showModels());
    return made;
  }

  #chosen(role) {
    const { select } = this.models.get(role);
    return this.offer.models[role].find((one) => one.name === select.value);
  }

  #showModels() {
    show(this.toy, this.#chosen("planner").toy || this.#chosen("generator").toy);
    show(this.size.element, this.#chosen("generator").sized);
    set(this.size.input, "disabled", !this.#chosen("generator").sized);
  }

  #useExample() {
    this.seedBefore ??= this.seed.input.value;
    this.text.value = this.offer.example.request;
    this.seed.input.value = this.offer.example.seed;
    show(this.exampleSeed, true);
    keep(this.text.value);
    this.text.focus();
  }

  /** The seed of the example is for the example alone. */
  #endExample() {
    if (this.seedBefore === undefined || this.text.value === this.offer.example.request) return;
    this.seed.input.value = this.seedBefore;
    this.seedBefore = undefined;
    show(this.exampleSeed, false);
  }

  async #submit(event) {
    event.preventDefault();
    show(this.error, false);
    set(this.button, "disabled", true);
    const chosen = Object.fromEntries([...this.models].map(([role, { select }]) => [role, select.value]));
    if (this.size.input.value && !this.size.input.disabled) chosen.size = this.size.input.value;
    try {
      await this.start({
        request: this.text.value,
        images: this.uploads.images,
        models: chosen,
        pause: this.pause.select.value,
        max_attempts: this.attempts.input.valueAsNumber,
        seed: this.seed.input.valueAsNumber,
        step_count: this.steps.input.valueAsNumber || 0,
        captions: this.captions.select.value,
        style: this.style.input.value,
      });
    } catch (error) {
      this.#showError(error);
      set(this.button, "disabled", Boolean(this.busy));
    }
  }

  #showError(error) {
    const parts = [error.message];
    if (error.unknown) {
      parts[0] = say("The tiny world does not know: {text}.", { text: error.unknown });
      if (this.offer.command) parts.push(make("p", "", {}, `${say("Use real models")}: ${say("Stop the app with Ctrl-C, and start it with:")}`), commandBox(this.offer.command));
    }
    this.error.replaceChildren(...parts);
    show(this.error, true);
    this.error.scrollIntoView({ block: "nearest" });
  }
}

/** A number field; with a placeholder it may be empty, which is 0. */
function numberOf(label, { value, least, most }, placeholder = "") {
  return inputOf(label, { type: "number", value: placeholder && !value ? "" : value, min: placeholder ? 1 : least, max: most, step: 1, required: !placeholder, placeholder });
}

/** A request that was typed is not lost when the page is loaded again. */
function kept() {
  try {
    return localStorage.getItem(DRAFT);
  } catch {
    return null;
  }
}

function keep(text) {
  try {
    localStorage.setItem(DRAFT, text);
  } catch {
    // Without storage, only a reload loses the text.
  }
}
