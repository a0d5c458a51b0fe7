// The form of a new story: its request, its models, and when the story waits for the user.

import { make, set, setText, show, textButton } from "../web/live/elements.js";
import { say } from "../web/words.js";

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

export function selectOf(label, options, chosen) {
  const select = make("select", "it-select", {}, ...options.map(([value, name]) => make("option", "", { value }, name)));
  select.value = chosen;
  return { select, element: make("label", "app-field", {}, make("span", "", {}, label), select) };
}

export class StoryForm {
  /** `offer`: what the page offers; `start(story)`: starts a story, asynchronous. */
  constructor(offer, start) {
    Object.assign(this, { offer, start });
    this.text = make("textarea", "it-textarea app-request", { rows: 6, maxLength: 20000, required: true, spellcheck: true });
    this.text.value = kept() || "";
    this.text.addEventListener("input", () => keep(this.text.value));
    this.text.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.form.requestSubmit();
    });
    const example = textButton(say("Use the example"), "", () => this.#useExample());
    this.models = new Map(ROLES.map((role) => [role, this.#modelSelect(role)]));
    this.pause = selectOf(say("Wait for my approval"), pauses(), offer.settings.pause.value);
    this.attempts = numberOf(say("Attempts per step"), offer.settings.max_attempts);
    this.seed = numberOf(say("Seed"), offer.settings.seed);
    this.toy = make("p", "app-toy");
    this.button = make("button", "it-button app-main", { type: "submit" }, say("Start the story"));
    this.error = make("p", "app-error", { hidden: true });
    this.error.setAttribute("role", "alert");
    const more = make("details", "app-more", {}, make("summary", "", {}, say("Models and settings")));
    more.append(...[...this.models.values(), this.pause, this.attempts, this.seed].map(({ element }) => element));
    this.form = make(
      "form",
      "app-form",
      { onsubmit: (event) => this.#submit(event) },
      make("label", "app-field", {}, make("span", "", {}, say("What is the story about?")), this.text),
      make("div", "app-row", {}, this.button, example),
      this.error,
      this.toy,
      more,
    );
    this.#showToy();
  }

  /** While a story is being generated, no other one can start. */
  update(busy) {
    this.busy = busy;
    set(this.button, "disabled", busy);
    setText(this.button, busy ? say("A story is being generated") : say("Start the story"));
  }

  #modelSelect(role) {
    const labels = { planner: say("Planner"), critic: say("Critic"), generator: say("Image model") };
    const offers = this.offer.models[role];
    const nameOf = (one) => (one.toy ? say("Tiny world (toy)") : one.name === "none" ? say("None: images are not judged") : one.label);
    const made = selectOf(labels[role], offers.map((one) => [one.name, nameOf(one)]), offers[0].name);
    made.select.addEventListener("change", () => this.#showToy());
    return made;
  }

  #isToy(role) {
    const { select } = this.models.get(role);
    return this.offer.models[role].some((one) => one.toy && one.name === select.value);
  }

  #showToy() {
    const toy = this.#isToy("planner") || this.#isToy("generator");
    show(this.toy, toy);
    setText(
      this.toy,
      say("The tiny world is a toy: it knows few words and simple shapes, and needs no download. Other models are named when the app is started."),
    );
  }

  #useExample() {
    this.text.value = this.offer.example.request;
    this.seed.input.value = this.offer.example.seed;
    keep(this.text.value);
    this.text.focus();
  }

  async #submit(event) {
    event.preventDefault();
    show(this.error, false);
    set(this.button, "disabled", true);
    const chosen = Object.fromEntries([...this.models].map(([role, { select }]) => [role, select.value]));
    try {
      await this.start({
        request: this.text.value,
        models: chosen,
        pause: this.pause.select.value,
        max_attempts: this.attempts.input.valueAsNumber,
        seed: this.seed.input.valueAsNumber,
      });
    } catch (error) {
      setText(this.error, error.message);
      show(this.error, true);
      set(this.button, "disabled", Boolean(this.busy));
    }
  }
}

function numberOf(label, { value, least, most }) {
  const input = make("input", "it-search", { type: "number", value, min: least, max: most, step: 1, required: true });
  return { input, element: make("label", "app-field", {}, make("span", "", {}, label), input) };
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
