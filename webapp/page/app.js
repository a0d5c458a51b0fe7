// The page: a form for a new story, the story that is shown, and the list of all stories.
//
// The address names the story that is shown, so a reload shows it again. News of the story that is being generated come as answers
// to one request after the other, each of which the server answers when something has changed.

import { make, show } from "../web/live/elements.js";
import { StoryList } from "../web/live/story_list.js";
import { resolved } from "../web/languages.js";
import { loadWords, say } from "../web/words.js";
import { StoryForm } from "./form.js";
import { Server } from "./server.js";
import { StoryPart } from "./story.js";

const RETRY = 1500;
const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

class Page {
  constructor(server, offer) {
    Object.assign(this, { server, offer, titles: new Map() });
    this.form = new StoryForm(offer, (story) => this.#start(story));
    this.fold = make("details", "app-new", { open: true }, make("summary", "", {}, make("h2", "", {}, say("New story"))), this.form.form);
    this.lost = make("p", "app-error app-lost", { hidden: true });
    this.lost.setAttribute("role", "alert");
    this.stories = new StoryList(server, {
      load: (story) => this.#open(story.run, story.title),
      label: say("Open"),
      title: say("Show this story"),
      language: () => navigator.language,
    });
    this.place = make("div", "app-place", {}, make("p", "app-empty", {}, say("Your story appears here, step by step, while it is generated and judged.")));
    const list = make("section", "app-list", {}, make("h2", "", {}, say("Stories")), this.stories.element);
    const main = make("main", "app", {}, this.fold, this.place, list);
    const kept = say("This is a public try-out: nobody else sees your stories. They are deleted {minutes} minutes after you leave.", offer);
    const note = make("p", "it-quiet", { hidden: !offer.minutes }, kept);
    document.body.append(make("header", "app-top", {}, make("h1", "", {}, "InterleaveThinker"), note), this.lost, main);
    addEventListener("hashchange", () => this.#openNamed());
  }

  async begin() {
    await this.stories.read();
    const board = (this.board = await this.server.board("", "", -1));
    this.#openNamed();
    this.take(board);
    await this.#listen();
  }

  async #start(story) {
    const board = await this.server.start(story);
    this.titles.set(board.run, story.request);
    this.board = board;
    this.#show(board.run);
    this.take(board);
    this.story.element.focus();
  }

  #open(run, title) {
    this.titles.set(run, title);
    this.#show(run);
    this.story.element.focus();
  }

  #openNamed() {
    const run = decodeURIComponent(location.hash.slice(1));
    if (run && run !== this.story?.run) this.#show(run);
  }

  #show(run) {
    this.story?.dispose();
    const title = this.titles.get(run) ?? this.stories.titleOf(run) ?? run;
    this.story = new StoryPart(this.server, this.offer, run, title, (board) => this.take(board));
    this.place.replaceChildren(this.story.element);
    history.replaceState(null, "", `#${encodeURIComponent(run)}`);
    // On a phone, the story is below the form.
    if (matchMedia("(max-width: 900px)").matches) this.fold.open = false;
    this.story.busy = this.board?.busy && this.board.run === run;
    if (this.story.busy) this.#refresh().catch((error) => this.#lose(error));
    else this.story.read();
  }

  /** Ask for all messages at once: those that are under way may be for the story that was shown before. */
  async #refresh() {
    this.take(await this.server.board("", "", -1));
  }

  #lose(error) {
    this.lost.textContent = error.message;
    show(this.lost, true);
  }

  /** Process an answer about the story that is being generated. */
  take(board) {
    const ended = this.board?.busy && !board.busy;
    this.board = board;
    this.form.update(board.busy);
    if (!this.story && board.busy) this.#show(board.run);
    if (this.story?.run === board.run) this.story.take(board);
    if (ended || board.run !== this.listed) this.stories.read();
    this.listed = board.run;
  }

  async #listen() {
    for (;;) {
      try {
        const { id, seq } = this.story?.run === this.board?.run ? (this.story?.newest ?? {}) : {};
        const board = await this.server.board(this.known ?? "", id ?? "", seq ?? -1);
        show(this.lost, false);
        this.known = board.edition;
        this.take(board);
      } catch (error) {
        this.#lose(error);
        this.known = undefined;
        await pause(RETRY);
      }
    }
  }
}

await loadWords(navigator.language);
document.documentElement.lang = resolved(navigator.language);
const server = new Server();
for (;;) {
  try {
    await new Page(server, await server.page()).begin();
  } catch (error) {
    document.body.replaceChildren(make("p", "app-error app-lost", {}, error.message));
    await pause(RETRY);
    document.body.replaceChildren();
  }
}
