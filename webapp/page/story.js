// One story: its title, its plan while it waits for approval, the live view, and the exports.

import { make, setText, show, textButton } from "../web/live/elements.js";
import { RunState } from "../web/live/state.js";
import { RunView } from "../web/live/view.js";
import { say } from "../web/words.js";
import { selectOf, timeOf, titleOf } from "./elements.js";
import { pauses } from "./form.js";
import { PlanPart } from "./plan.js";
import { Server } from "./server.js";

const SECOND = 1000;

export class StoryPart {
  /** `server`; `offer`: what the page offers; `run`: its name; `request`: its text; `news(board)`: receives the server's answers. */
  constructor(server, offer, run, request, news) {
    Object.assign(this, { server, run, news, newest: {} });
    this.state = new RunState();
    // An approved plan is the one that the user sees, so changes of it are saved first.
    const requests = Object.assign(new Server(), { decide: (...given) => this.#decide(...given) });
    this.view = new RunView(this.state, requests, { again: () => this.#again(), idle: () => "", hasMasks: true, isPlanEditable: () => false });
    this.heading = titleField(run, titleOf(request), request);
    this.plan = new PlanPart(server, run);
    this.line = make("p", "it-quiet", { hidden: true });
    this.line.setAttribute("role", "status");
    this.bar = make("progress", "app-bar", { max: 1, hidden: true });
    this.time = make("p", "it-quiet", { hidden: true });
    this.error = make("p", "app-error", { hidden: true });
    this.error.setAttribute("role", "alert");
    this.cancel = textButton(say("Cancel"), say("Stop the story after the present image; finished images stay"), () => this.#cancel());
    this.pause = selectOf(say("Wait for my approval"), pauses(), "never");
    this.said = make("span", "it-quiet");
    this.said.setAttribute("role", "status");
    this.format = make("select", "it-select", {}, ...offer.exports.map((to) => make("option", "", { value: to }, formats()[to] ?? to)));
    this.format.setAttribute("aria-label", say("Save as"));
    this.save = textButton(say("Save"), "", () => this.#export());
    this.saving = make("div", "app-row app-exports", { hidden: true }, make("span", "", {}, say("Save as")), this.format, this.save, this.said);
    this.element = make(
      "section",
      "app-story",
      { tabIndex: -1 },
      make("header", "app-row app-head", {}, this.heading, this.cancel, this.pause.element),
      this.line,
      this.bar,
      this.time,
      this.error,
      this.plan.element,
      this.view.element,
      this.saving,
    );
    this.element.setAttribute("aria-label", say("Story"));
    this.clock = setInterval(() => this.#showTime(), SECOND);
  }

  dispose() {
    clearInterval(this.clock);
    this.view.dispose();
  }

  /** Show the run from its folder. */
  async read() {
    try {
      const received = await this.server.run(this.run);
      // Messages that have arrived in the meantime are newer.
      if (this.state.isEmpty) this.state.restore(received);
      await this.#readPlan();
    } catch (error) {
      if (!this.busy) this.#fail(error);
    }
    this.update();
  }

  /** Process what the server says about this story while it is generated. */
  take(board) {
    const ended = this.busy && !board.busy;
    this.busy = board.busy;
    const { state } = board;
    if (state?.messages.length) {
      for (const message of state.messages) this.state.take(message);
      const { id, seq } = state.messages.at(-1);
      this.newest = { id, seq };
      this.state.noted(state);
    }
    // Between the end of a plan and the first message, the line says what is done.
    setText(this.line, board.busy && !state ? lineOf(board) : "");
    show(this.line, Boolean(this.line.textContent));
    this.timed = board.busy ? { ...board, at: performance.now() } : undefined;
    this.#showTime();
    if (board.error) this.#fail(new Error(board.error));
    else if (board.busy) show(this.error, false);
    if (!board.busy && this.state.running) this.state.stop();
    if (ended) this.#readPlan().catch((error) => this.#fail(error));
    this.update();
  }

  update() {
    const waitsForPlan = this.state.waiting?.step === null && !this.busy;
    show(this.cancel, Boolean(this.busy));
    // A finished story has nothing to wait for, unless a step is generated again.
    show(this.pause.element, !this.busy && !this.state.isEmpty && this.state.about.status !== "finished");
    show(this.saving, !this.busy && this.state.order.some((step) => this.state.imageOf(step)));
    show(this.view.element, !this.state.isEmpty);
    show(this.plan.element, waitsForPlan && this.plan.steps.length > 0);
    this.element.classList.toggle("app-waits-for-plan", !this.plan.element.hidden);
    this.view.update();
  }

  async #readPlan() {
    if (this.state.isEmpty) return;
    const shown = await this.server.plan(this.run);
    this.pause.select.value = shown.pause;
    this.plan.take(shown);
    this.update();
  }

  /** How long the models load, or the story takes: what is left if it is known, else what is past. */
  #showTime() {
    const { past = 0, left = null, stage = "", at } = this.timed ?? {};
    const since = (performance.now() - (at ?? 0)) / SECOND;
    const rest = left === null ? null : left - since;
    const isLoading = Boolean(at) && stage !== "";
    show(this.bar, isLoading && stage !== "waiting");
    if (rest !== null && rest > 0) this.bar.value = (past + since) / (past + left);
    else this.bar.removeAttribute("value");
    const words = !at ? "" : rest !== null && rest > 0 ? say("About {text} left", { text: timeOf(rest) }) : isLoading ? timeOf(past + since) : "";
    setText(this.time, words);
    show(this.time, Boolean(words));
  }

  #fail(error) {
    setText(this.error, error.message);
    show(this.error, true);
  }

  async #decide(run, waiting, skip) {
    show(this.error, false);
    if (waiting.step !== null || !this.plan.isChanged) return await this.server.decide(run, waiting, skip);
    try {
      await this.server.changePlan(run, this.plan.text);
    } catch (error) {
      this.#fail(error);
      throw error;
    }
    return { messages: [], choices: this.state.choices, redraws: {}, feedback: [], decided: true };
  }

  async #again() {
    try {
      this.news(await this.server.again(this.run, this.pause.select.value));
      return true;
    } catch (error) {
      this.#fail(error);
      return false;
    }
  }

  async #cancel() {
    try {
      this.cancel.disabled = true;
      this.news(await this.server.cancel(this.run));
    } catch (error) {
      this.#fail(error);
    } finally {
      this.cancel.disabled = false;
    }
  }

  async #export() {
    this.save.disabled = true;
    setText(this.said, say("Writing the file…"));
    const to = this.format.value;
    try {
      const { name } = await this.server.export(this.run, to, this.heading.textContent.trim());
      make("a", "", { href: this.server.exported(this.run, to), download: name }).click();
      setText(this.said, name);
    } catch (error) {
      setText(this.said, error.message);
    } finally {
      this.save.disabled = false;
    }
  }
}

/** The names of the formats; one without a name here is from a plug-in. */
function formats() {
  return {
    page: say("Web page"),
    pdf: "PDF",
    book: `${say("Picture book")} (PDF)`,
    epub: `${say("E-book")} (EPUB)`,
    comic: `${say("Comic")} (CBZ)`,
    "comic-pdf": `${say("Comic")} (PDF)`,
    "comic-png": `${say("Comic")} (PNG)`,
    gif: `${say("Animation")} (GIF)`,
    webp: `${say("Animation")} (WebP)`,
    mp4: say("Video (MP4)"),
    markdown: "Markdown",
    sheet: `${say("Contact sheet")} (PNG)`,
    record: `${say("Execution record")} (JSON)`,
    story: `${say("Story")} (JSON)`,
    zip: say("Story file (zip)"),
  };
}

/** The title as a heading that can be changed. It is that of the exports, and this browser remembers it. */
function titleField(run, title, request) {
  const key = `interleave-title ${run}`;
  const heading = make("h2", "app-title", { tabIndex: 0, title: request, spellcheck: false });
  heading.contentEditable = "plaintext-only";
  heading.setAttribute("aria-label", say("Title"));
  try {
    heading.textContent = localStorage.getItem(key) || title;
  } catch {
    heading.textContent = title;
  }
  heading.addEventListener("keydown", (event) => event.key === "Enter" && (event.preventDefault(), heading.blur()));
  heading.addEventListener("blur", () => {
    heading.textContent = heading.textContent.trim().slice(0, 200) || title;
    try {
      if (heading.textContent === title) localStorage.removeItem(key);
      else localStorage.setItem(key, heading.textContent);
    } catch {
      // Without storage, only a reload loses the title.
    }
  });
  return heading;
}

/** What the server does before there is a plan. */
function lineOf({ stage, before }) {
  const roles = { planner: say("Planner"), critic: say("Critic"), generator: say("Image model") };
  if (roles[stage]) return `${say("Loading the models…")} ${roles[stage]}`;
  if (stage === "planning") return say("Writing the plan…");
  return before ? say("Stories before yours: {number}", { number: before }) : say("Loading the models…");
}
