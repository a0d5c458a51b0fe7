// The view of a run on its node: steps as a row of cards, the attempts of one step below, and the comparison of two images.
// It updates at most once a frame and only after a message; nothing runs while the canvas is drawn.

import { heard, say } from "../words.js";
import { AttemptView } from "./attempt.js";
import { Card } from "./card.js";
import { Compare } from "./compare.js";
import { keepWheel, make, named, set, setText, show, textButton } from "./elements.js";
import { openPictures, slidesOf } from "./lightbox.js";
import { Notice, StoryCheckView, TimesView } from "./notice.js";
import { Room } from "./room.js";
import { Takeaway } from "./takeaway.js";

const SMALL = 256;

export class RunView {
  /** `acts`: {again()} queues the story again; false, or a promise of it, if the host did not accept it. {idle()}: the line of a node
   *  without a run. {isPlanEditable()}: whether {editPlan()} finds the node to edit the plan in, and goes there.
   *  {write(to)}, if given: see Takeaway. `hasMasks`: whether a part of an image can be generated again. */
  constructor(state, requests, acts) {
    Object.assign(this, { state, requests, acts, selected: null, cards: new Map(), attempts: new Map() });
    // Absolute URLs: compared with the source of an image element, an unchanged one is left alone.
    const whole = (url) => new URL(url, location.href).href;
    this.pictures = {
      full: (digest) => whole(requests.picture(state.run, digest)),
      small: (digest, pixels = SMALL) => whole(requests.thumbnail(state.run, digest, sizeFor(pixels))),
    };
    this.line = make("p", "it-line");
    this.line.setAttribute("role", "status");
    this.bar = make("div", "it-bar-fill");
    this.barFrame = make("div", "it-bar", {}, this.bar);
    named(this.barFrame, "progressbar", say("Progress of the story"));
    for (const [name, value] of [["aria-valuemin", "0"], ["aria-valuemax", "100"]]) this.barFrame.setAttribute(name, value);
    this.takeaway = this.acts.write && new Takeaway(this.acts.write);
    this.row = make("ol", "it-cards");
    named(this.row, "list", say("Steps"));
    this.notice = new Notice(() => this.#again(), (waiting, skip) => this.#decide(waiting, skip), () => this.acts.editPlan());
    this.check = new StoryCheckView((step) => this.#show(step));
    this.times = new TimesView();
    this.name = make("h4", "it-name");
    this.sentence = make("span", "it-quiet");
    this.caption = make("p", "it-caption");
    this.said = make("span", "it-quiet");
    this.said.setAttribute("role", "status");
    this.redrawStep = textButton(say("Redraw this step"), say("Generate one more attempt now, with the kept attempt's prompt and another seed"), () =>
      this.#redrawShown(),
    );
    this.compare = new Compare(this.pictures.small, { open: (name) => this.#open(this.#shownStep(), undefined, name) });
    this.list = make("ol", "it-attempts");
    named(this.list, "list", say("Attempts"));
    this.detail = make(
      "div",
      "it-detail",
      {},
      make("header", "it-step-head", {}, this.name, this.sentence, this.said, this.redrawStep),
      this.caption,
      this.list,
      this.compare.element,
    );
    named(this.detail, "group", say("Selected step"));
    const top = this.takeaway ? make("div", "it-top", {}, this.line, this.takeaway.element) : this.line;
    const parts = [top, this.barFrame, this.notice.element, this.check.element, this.row, this.times.element, this.detail];
    this.element = make("div", "it-live", {}, ...parts);
    named(this.element, "region", say("Steps of the story"));
    // The wheel scrolls what can scroll here, and zooms the graph everywhere else.
    for (const scrolled of [this.row, this.detail, this.check.element])
      scrolled.addEventListener("wheel", (event) => keepWheel(event, scrolled), { passive: true });
    this.element.addEventListener("pointerdown", (event) => event.button === 0 && event.stopPropagation());
    this.room = new Room(this.detail, this.list, this.compare.element);
    this.draw();
  }

  /** Something changed: update with the next frame. */
  update() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      this.draw();
    });
  }

  /** Show the latent preview of the image in progress, as a blob. */
  preview(blob) {
    const { drawn } = this.state;
    const view = drawn && this.attempts.get(`${drawn.step} ${drawn.attempt}`);
    if (!view) return;
    const url = URL.createObjectURL(blob);
    if (!view.preview(url)) return URL.revokeObjectURL(url);
    if (this.previewUrl) URL.revokeObjectURL(this.previewUrl);
    this.previewUrl = url;
  }

  /** Open the image of a step in full size. */
  openStep(step) {
    this.#open(step);
  }

  dispose() {
    if (this.frame) cancelAnimationFrame(this.frame);
    if (this.previewUrl) URL.revokeObjectURL(this.previewUrl);
    this.room.dispose();
    this.compare.dispose();
  }

  draw() {
    const { state } = this;
    for (const part of [this.barFrame, this.row, this.detail]) show(part, !state.isEmpty);
    const line = state.isEmpty ? this.acts.idle() : heard(state.about.line);
    setText(this.line, line);
    set(this.line, "title", line);
    if (state.isEmpty) return;
    if (this.run !== state.run) this.selected = null;
    this.run = state.run;
    this.element.dataset.status = state.about.status;
    this.bar.style.width = `${Math.round(100 * (state.about.status === "finished" ? 1 : state.share))}%`;
    this.barFrame.setAttribute("aria-valuenow", String(Math.round(100 * (state.about.status === "finished" ? 1 : state.share))));
    this.#queueMissed();
    this.notice.update(state, this.queuedAfter === state.id, this.acts.isPlanEditable());
    this.check.update(state);
    this.takeaway?.update(state);
    this.times.update(state);
    this.#drawCards();
    this.#drawDetail(this.#shownStep());
  }

  #shownStep() {
    const { state } = this;
    if (this.selected !== null && state.steps.has(this.selected)) return this.selected;
    if (state.running && state.current !== null) return state.current;
    if (state.steps.has(state.waiting?.step)) return state.waiting.step;
    const doubtful = state.order.find((step) => state.steps.get(step)?.tone === "open");
    return doubtful ?? (state.about.status === "finished" ? state.order[0] : (state.current ?? state.order[0]));
  }

  /** A request for the current step came too late for the loop: queue the next run. */
  #queueMissed() {
    if (this.askedOf !== this.state.id || this.state.running) return;
    this.askedOf = undefined;
    if (["finished", "incomplete"].includes(this.state.about.status) && this.state.redrawsWaiting.length) this.#again();
  }

  async #again() {
    this.queuedAfter = this.state.id;
    this.draw();
    if ((await this.acts.again()) !== false) return;
    this.queuedAfter = undefined;
    this.draw();
  }

  /** Request one more attempt: the loop uses it as its next one if it is at this step; else the graph is queued at once. */
  async #redraw(request) {
    const { state } = this;
    const id = state.id;
    await this.#noted(this.requests.redraw(state.run, { prompt: null, picture: null, feedback: null, ...request }));
    // Whether an image to paint on is still an attempt is known only in a run, so the next one is queued for it.
    if (state.isAt(request.step) && !request.mask) {
      this.askedOf = id;
      return say("This is the next attempt.");
    }
    this.#again();
    return "";
  }

  /** Choose an image as a step's result. If the run waits at this step, that is the user's decision, and the story is queued. */
  async #choose(step, digest) {
    const waited = this.state.waiting?.step === step;
    await this.#noted(this.requests.choose(this.state.run, step, digest));
    if (waited && digest) this.#again();
  }

  /** Approve what the run waits for, or skip the step, and queue the next run. */
  async #decide(waiting, skip) {
    try {
      await this.#noted(this.requests.decide(this.state.run, waiting, skip));
    } catch (error) {
      setText(this.said, error.message);
      return;
    }
    this.#again();
  }

  async #redrawShown() {
    const { state } = this;
    const step = this.#shownStep();
    const picture = state.imageOf(step)?.digest ?? null;
    try {
      setText(this.said, await this.#redraw({ step, picture }));
    } catch (error) {
      setText(this.said, error.message);
    }
  }

  /** Open a step's kept image, or that of an attempt, in full size; with `against`, compared with that one. */
  #open(step, attempt, against) {
    const { state } = this;
    const slides = slidesOf(state, (one) => this.#optionsOf(one));
    const wanted = attempt ?? state.steps.get(step)?.chosen ?? slides.findLast((one) => one.step === step)?.attempt;
    const index = slides.findIndex((one) => one.step === step && one.attempt === wanted);
    const redraw = this.acts.hasMasks && ((request) => this.#redraw(request));
    openPictures(slides, index, { pictures: this.pictures, compare: against !== undefined, preferred: against, redraw });
  }

  #drawCards() {
    const { state } = this;
    const wanted = state.order.filter((step) => state.steps.has(step));
    for (const [step, card] of this.cards) if (!wanted.includes(step)) this.#drop(step, card);
    wanted.forEach((step, index) => {
      if (!this.cards.has(step)) this.cards.set(step, this.#card(step));
      const card = this.cards.get(step);
      if (this.row.children[index] !== card.element) this.row.insertBefore(card.element, this.row.children[index] ?? null);
      card.update(state, this.pictures, step === this.#shownStep());
    });
    this.#bringIntoView(this.cards.get(this.#shownStep()));
  }

  #card(step) {
    const open = () => {
      this.#show(step);
      this.#open(step);
    };
    return new Card(step, { select: () => this.#show(this.selected === step ? null : step), open });
  }

  /** Scroll the row only when another step is shown: the user may look around in the meantime. */
  #bringIntoView(card) {
    if (!card || card === this.inView || !this.row.clientWidth) return;
    this.inView = card;
    // As little as possible: the row begins with the first step.
    const [left, right] = [card.element.offsetLeft, card.element.offsetLeft + card.element.offsetWidth];
    this.row.scrollLeft = Math.min(Math.max(this.row.scrollLeft, right - this.row.clientWidth), left);
  }

  #drop(step, card) {
    card.element.remove();
    this.cards.delete(step);
  }

  #show(step) {
    this.selected = step;
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
    show(this.redrawStep, Boolean(shown.prompt) && shown.status !== "waiting");
    if (step !== this.saidOf) setText(this.said, "");
    this.saidOf = step;
    const attempts = (state.attempts.get(step) ?? []).filter(Boolean);
    const views = attempts.map((attempt) => this.#attemptView(attempt));
    const elements = views.map((view) => view.item);
    if (elements.length !== this.list.children.length || elements.some((one, index) => one !== this.list.children[index]))
      this.list.replaceChildren(...elements);
    attempts.forEach((attempt, index) =>
      views[index].update(attempt, {
        chosen: shown.chosen === attempt.attempt,
        open: shown.chosen === null || shown.chosen === undefined ? index === attempts.length - 1 : shown.chosen === index,
      }),
    );
    const drawn = attempts.filter((attempt) => attempt.image);
    this.compare.offer(step, this.#optionsOf(step), tryName(shown.chosen ?? drawn.at(-1)?.attempt ?? 0));
    this.room.share();
    if (step !== this.roomOf) this.room.bring(elements[shown.chosen]);
    this.roomOf = step;
  }

  /** The images of a step that can be compared, the one before the step first. */
  #optionsOf(step) {
    const drawn = (this.state.attempts.get(step) ?? []).filter((attempt) => attempt?.image);
    const options = drawn.map((attempt) => ({ name: tryName(attempt.attempt), image: attempt.image }));
    if (drawn[0]?.source) options.unshift({ name: say("Before"), image: drawn[0].source });
    return options;
  }

  #attemptView(attempt) {
    const key = `${attempt.step} ${attempt.attempt}`;
    const known = this.attempts.get(key);
    if (known?.run === this.state.id && known.attempt?.seed === attempt.seed) return known;
    const view = new AttemptView(this.state, this.pictures, {
      choose: (step, digest) => this.#choose(step, digest),
      say: (word) => this.#noted(this.requests.say(this.state.run, word)),
      redraw: (request) => this.#redraw(request),
      open: (attempt) => this.#open(attempt.step, attempt.attempt),
    });
    view.run = this.state.id;
    this.attempts.set(key, view);
    return view;
  }

  async #noted(request) {
    const { run } = this.state;
    const answer = await request;
    // Another run may have started in the meantime.
    if (this.state.run === run) this.state.noted(answer);
    this.draw();
  }
}

function tryName(attempt) {
  return say("Attempt {number}", { number: attempt + 1 });
}

/** A few sizes, so the browser seldom requests an image. */
function sizeFor(pixels) {
  return [256, 512, 1024].find((one) => one >= pixels) ?? 1024;
}
