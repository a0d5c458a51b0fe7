// One story: its request, the live view, and the exports.

import { make, setText, show, textButton } from "../web/live/elements.js";
import { RunState } from "../web/live/state.js";
import { RunView } from "../web/live/view.js";
import { say } from "../web/words.js";
import { pauses, selectOf } from "./form.js";

export class StoryPart {
  /** `server`; `offer`: what the page offers; `run`: its name; `title`: its request; `news(board)`: receives the server's answers. */
  constructor(server, offer, run, title, news) {
    Object.assign(this, { server, run, news, newest: {} });
    this.state = new RunState();
    this.view = new RunView(this.state, server, { again: () => this.#again(), idle: () => "", isPlanEditable: () => false });
    this.heading = make("h2", "app-title", { tabIndex: -1 }, title);
    this.line = make("p", "it-quiet", { hidden: true });
    this.line.setAttribute("role", "status");
    this.error = make("p", "app-error", { hidden: true });
    this.error.setAttribute("role", "alert");
    this.cancel = textButton(say("Cancel"), say("Stop the story after the present image; finished images stay"), () => this.#cancel());
    this.pause = selectOf(say("Wait for my approval"), [["", say("As before")], ...pauses()], "");
    this.said = make("span", "it-quiet");
    this.said.setAttribute("role", "status");
    const names = { page: say("Web page"), pdf: "PDF", zip: say("Story file (zip)"), markdown: "Markdown", mp4: say("Video (MP4)") };
    this.exports = offer.exports.map((to) => textButton(names[to], say("Save the story in this format"), () => this.#export(to)));
    this.saving = make("div", "app-row app-exports", { hidden: true }, make("span", "", {}, say("Save as")), ...this.exports, this.said);
    this.saving.setAttribute("role", "group");
    this.saving.setAttribute("aria-label", say("Save as"));
    this.element = make(
      "section",
      "app-story",
      {},
      make("header", "app-row app-head", {}, this.heading, this.cancel, this.pause.element),
      this.line,
      this.error,
      this.view.element,
      this.saving,
    );
    this.element.setAttribute("aria-label", say("Story"));
  }

  dispose() {
    this.view.dispose();
  }

  /** Show the run from its folder. */
  async read() {
    try {
      const received = await this.server.run(this.run);
      // Messages that have arrived in the meantime are newer.
      if (this.state.isEmpty) this.state.restore(received);
    } catch (error) {
      if (!this.busy) this.#fail(error);
    }
    this.update();
  }

  /** Process what the server says about this story while it is generated. */
  take(board) {
    this.busy = board.busy;
    const { state } = board;
    if (state?.messages.length) {
      for (const message of state.messages) this.state.take(message);
      const { id, seq } = state.messages.at(-1);
      this.newest = { id, seq };
      this.state.noted(state);
    }
    // Between the end of a plan and the first message, the line says what is done.
    setText(this.line, board.busy && !state ? lineOf(board.line) : "");
    show(this.line, Boolean(this.line.textContent));
    if (board.error) this.#fail(new Error(board.error));
    else if (board.busy) show(this.error, false);
    if (!board.busy && this.state.running) this.state.stop();
    this.update();
  }

  update() {
    show(this.cancel, Boolean(this.busy));
    // A finished story has nothing to wait for, unless a step is generated again.
    show(this.pause.element, !this.busy && !this.state.isEmpty && this.state.about.status !== "finished");
    show(this.saving, !this.state.isEmpty && !this.busy);
    show(this.view.element, !this.state.isEmpty);
    this.view.update();
  }

  #fail(error) {
    setText(this.error, error.message);
    show(this.error, true);
  }

  async #again() {
    try {
      this.news(await this.server.again(this.run, this.pause.select.value || null));
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

  async #export(to) {
    for (const button of this.exports) button.disabled = true;
    setText(this.said, say("Writing the file…"));
    try {
      const { name } = await this.server.export(this.run, to);
      make("a", "", { href: this.server.exported(this.run, to), download: name }).click();
      setText(this.said, name);
    } catch (error) {
      setText(this.said, error.message);
    } finally {
      for (const button of this.exports) button.disabled = false;
    }
  }
}

/** What the server does before there is a plan. */
function lineOf(line) {
  if (line.startsWith("Planning")) return say("Writing the plan…");
  return say("Loading the models…");
}
