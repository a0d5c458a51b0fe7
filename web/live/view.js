// The view of a run on its node: steps as a row of cards, the attempts of one step below, and the comparison of any two images.
// It draws at most once a frame and only when a message has come; nothing of it runs while the graph is drawn.

import { heard, say } from "../words.js";
import { AttemptView } from "./attempt.js";
import { Compare } from "./compare.js";
import { make, set, setText, show, textButton } from "./elements.js";

export class RunView {
  /** `acts`: {again()} queues the graph once more. */
  constructor(state, requests, acts) {
    Object.assign(this, { state, requests, acts, selected: null, cards: new Map(), attempts: new Map() });
    this.pictureUrl = (digest) => requests.picture(state.run, digest);
    this.line = make("p", "it-line", {}, say("Every step is shown here while it is drawn and judged."));
    this.bar = make("div", "it-bar-fill");
    this.barFrame = make("div", "it-bar", { role: "progressbar" }, this.bar);
    this.row = make("div", "it-cards", { role: "list" });
    this.pending = make("span");
    this.notice = make(
      "div",
      "it-notice",
      { hidden: true },
      this.pending,
      textButton(say("Run again"), say("Queue the graph: only what follows from it is drawn"), () => acts.again()),
    );
    this.name = make("h4", "it-name");
    this.sentence = make("span", "it-quiet");
    this.caption = make("p", "it-caption");
    this.compare = new Compare(this.pictureUrl);
    this.list = make("div", "it-attempts");
    this.detail = make(
      "div",
      "it-detail",
      {},
      make("header", "it-step-head", {}, this.name, this.sentence),
      this.caption,
      this.list,
      this.compare.element,
    );
    this.element = make("div", "it-live", {}, this.line, this.barFrame, this.notice, this.row, this.detail);
    // The wheel scrolls what can be scrolled here, and zooms the graph everywhere else.
    for (const scrolled of [this.row, this.detail])
      scrolled.addEventListener("wheel", (event) => keepWheel(event, scrolled), { passive: true });
    this.element.addEventListener("pointerdown", (event) => event.button === 0 && event.stopPropagation());
    this.draw();
  }

  /** Something changed: draw it with the next frame. */
  update() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      this.draw();
    });
  }

  /** The latent preview of the draw that is going on, as a blob. */
  preview(blob) {
    const attempts = this.state.attempts.get(this.state.current) ?? [];
    const view = this.attempts.get(`${this.state.current} ${attempts.length - 1}`);
    if (!view) return;
    const url = URL.createObjectURL(blob);
    if (!view.preview(url)) return URL.revokeObjectURL(url);
    if (this.previewUrl) URL.revokeObjectURL(this.previewUrl);
    this.previewUrl = url;
  }

  dispose() {
    if (this.frame) cancelAnimationFrame(this.frame);
    if (this.previewUrl) URL.revokeObjectURL(this.previewUrl);
  }

  draw() {
    const { state } = this;
    for (const part of [this.barFrame, this.row, this.detail]) show(part, !state.isEmpty);
    if (state.isEmpty) return;
    this.element.dataset.status = state.about.status;
    const line = heard(state.about.line);
    setText(this.line, line);
    set(this.line, "title", line);
    this.bar.style.width = `${Math.round(100 * (state.about.status === "finished" ? 1 : state.share))}%`;
    this.barFrame.setAttribute("aria-valuenow", String(Math.round(100 * state.share)));
    this.#drawNotice();
    this.#drawCards();
    this.#drawDetail(this.#shownStep());
  }

  #shownStep() {
    const { state } = this;
    if (this.selected !== null && state.steps.has(this.selected)) return this.selected;
    if (state.running && state.current !== null) return state.current;
    const doubtful = state.order.find((step) => state.steps.get(step)?.tone === "open");
    return doubtful ?? state.current ?? state.order[0];
  }

  #drawNotice() {
    const { state } = this;
    const open = Object.entries(state.choices).filter(([step, digest]) => {
      const shown = state.steps.get(Number(step));
      const attempts = state.attempts.get(Number(step)) ?? [];
      return attempts.some((one) => one?.image?.digest === digest) && attempts[shown?.chosen]?.image?.digest !== digest;
    });
    const taken = state.order.filter((step) => state.steps.get(step)?.picked && !(step in state.choices));
    const steps = [...open.map(([step]) => Number(step)), ...taken];
    show(this.notice, steps.length > 0 && !state.running);
    if (steps.length) setText(this.pending, pendingWords(open.length > 0, steps));
  }

  #drawCards() {
    const { state } = this;
    const wanted = state.order.filter((step) => state.steps.has(step));
    for (const [step, card] of this.cards) if (!wanted.includes(step)) this.#drop(step, card);
    wanted.forEach((step, index) => {
      if (!this.cards.has(step)) this.cards.set(step, new Card(step, () => this.#select(step)));
      const card = this.cards.get(step);
      if (this.row.children[index] !== card.element) this.row.insertBefore(card.element, this.row.children[index] ?? null);
      card.update(state, this.pictureUrl, step === this.#shownStep());
    });
    this.#bringIntoView(this.cards.get(this.#shownStep()));
  }

  /** Only the row is scrolled, and only when another step is shown: a person may look around in the meantime. */
  #bringIntoView(card) {
    if (!card || card === this.inView || !this.row.clientWidth) return;
    this.inView = card;
    const middle = card.element.offsetLeft + card.element.offsetWidth / 2;
    this.row.scrollLeft = middle - this.row.clientWidth / 2;
  }

  #drop(step, card) {
    card.element.remove();
    this.cards.delete(step);
  }

  #select(step) {
    this.selected = this.selected === step ? null : step;
    this.draw();
  }

  #drawDetail(step) {
    const { state } = this;
    const shown = state.steps.get(step);
    if (!shown) return;
    setText(this.name, `${step}. ${shown.name}`);
    setText(this.sentence, heard(shown.sentence));
    setText(this.caption, shown.text);
    show(this.caption, Boolean(shown.text));
    const attempts = (state.attempts.get(step) ?? []).filter(Boolean);
    const views = attempts.map((attempt) => this.#attemptView(attempt));
    const elements = views.map((view) => view.element);
    if (elements.length !== this.list.children.length || elements.some((one, index) => one !== this.list.children[index]))
      this.list.replaceChildren(...elements);
    attempts.forEach((attempt, index) =>
      views[index].update(attempt, {
        chosen: shown.chosen === attempt.attempt,
        open: shown.chosen === null || shown.chosen === undefined ? index === attempts.length - 1 : shown.chosen === index,
      }),
    );
    const drawn = attempts.filter((attempt) => attempt.image);
    const options = drawn.map((attempt) => ({ name: tryName(attempt.attempt), image: attempt.image }));
    if (drawn[0]?.source) options.unshift({ name: say("Before"), image: drawn[0].source });
    this.compare.offer(step, options, tryName(shown.chosen ?? drawn.at(-1)?.attempt ?? 0));
  }

  #attemptView(attempt) {
    const key = `${attempt.step} ${attempt.attempt}`;
    const known = this.attempts.get(key);
    if (known?.run === this.state.id && known.attempt?.seed === attempt.seed) return known;
    const view = new AttemptView(this.state, this.pictureUrl, {
      choose: (step, digest) => this.#noted(this.requests.choose(this.state.run, step, digest)),
      say: (word) => this.#noted(this.requests.say(this.state.run, word)),
    });
    view.run = this.state.id;
    this.attempts.set(key, view);
    return view;
  }

  async #noted(request) {
    this.state.noted(await request);
    this.draw();
  }
}

class Card {
  constructor(step, onclick) {
    this.step = step;
    this.image = make("img", "it-card-image", { alt: "", loading: "lazy", decoding: "async", hidden: true });
    this.blank = make("span", "it-card-blank");
    this.dot = make("span", "it-dot");
    this.name = make("span", "it-card-name");
    this.state = make("span", "it-card-state");
    this.element = make(
      "button",
      "it-card",
      { type: "button", onclick },
      make("span", "it-card-frame", {}, this.image, this.blank),
      make("span", "it-card-head", {}, this.dot, this.name),
      this.state,
    );
    this.element.setAttribute("role", "listitem");
  }

  update(state, pictureUrl, selected) {
    const shown = state.steps.get(this.step);
    const image = state.imageOf(this.step);
    const tries = (state.attempts.get(this.step) ?? []).length;
    this.element.setAttribute("aria-current", String(selected));
    this.element.dataset.status = shown.status;
    this.dot.dataset.tone = shown.status === "running" && state.running ? "busy" : shown.tone;
    setText(this.name, `${this.step}. ${shown.name}`);
    const sentence = heard(shown.sentence);
    setText(this.state, doing(shown.status, tries, state.running) ?? sentence);
    set(this.element, "title", [shown.name, sentence, shown.text].filter(Boolean).join("\n"));
    show(this.image, Boolean(image));
    show(this.blank, !image);
    setText(this.blank, shown.prompt ? "" : shown.text);
    if (!image) return;
    set(this.image, "src", pictureUrl(image.digest));
  }
}

function tryName(attempt) {
  return say("Try {number}", { number: attempt + 1 });
}

function doing(status, tries, running) {
  if (status === "waiting") return say("waiting");
  if (status !== "running") return undefined;
  if (!running) return say("stopped");
  return tries ? say("try {number}…", { number: tries }) : say("starting…");
}

/** What the next run takes over: a person's choices, or steps that are the critic's again. */
function pendingWords(isChoice, steps) {
  const values = { step: steps[0], steps: steps.join(", ") };
  if (isChoice && steps.length === 1) return say("Your choice for step {step} is taken with the next run.", values);
  if (isChoice) return say("Your choice for steps {steps} is taken with the next run.", values);
  if (steps.length === 1) return say("The critic chooses step {step} again with the next run.", values);
  return say("The critic chooses steps {steps} again with the next run.", values);
}

function keepWheel(event, element) {
  if (event.ctrlKey || event.metaKey) return;
  const along = element.scrollHeight > element.clientHeight || element.scrollWidth > element.clientWidth;
  if (along) event.stopPropagation();
}
