// The list of all stories: what was generated, what is incomplete, how much of the disk it uses. A story is deleted after a
// question.

import { counted, heard, say } from "../words.js";
import { iconButton, make, setText, show, textButton } from "./elements.js";

const THUMBNAIL = 256;
const PAUSE = 250;
const UNITS = ["kB", "MB", "GB", "TB"];

/** A number of bytes as people read it: 12.3 MB. */
function size(bytes) {
  let value = bytes / 1000;
  let unit = 0;
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value.toLocaleString(undefined, { maximumFractionDigits: value < 10 ? 1 : 0 })}\u00a0${UNITS[unit]}`;
}

function day(seconds, language) {
  return new Date(seconds * 1000).toLocaleDateString(language, { dateStyle: "medium" });
}

export class StoryList {
  /** `requests`: to the server; `acts`: {load(story), label, title} of the first button, {again(story)} of a second one, {language()} for dates. */
  constructor(requests, acts) {
    Object.assign(this, { requests, acts, titles: new Map() });
    this.search = make("input", "it-search", { type: "search", placeholder: say("Search stories"), oninput: () => this.#later() });
    this.search.setAttribute("aria-label", say("Search stories"));
    this.total = make("p", "it-quiet");
    this.total.setAttribute("role", "status");
    this.list = make("ol");
    this.more = textButton(say("Show more"), "", () => this.read(this.list.children.length));
    show(this.more, false);
    const again = iconButton("pi-refresh", say("Refresh the list"), () => this.read());
    const head = make("div", "it-stories-head", {}, this.search, again);
    this.element = make("div", "it-live it-stories", {}, head, this.total, this.list, this.more);
  }

  #later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.read(), PAUSE);
  }

  /** Read the list, or its part after the first `start` stories. */
  async read(start = 0) {
    const asked = (this.asked = {});
    try {
      const found = await this.requests.stories(this.search.value.trim().slice(0, 200), start);
      // A newer request is under way: the user has typed on.
      if (this.asked === asked) this.#show(found, start);
    } catch (error) {
      if (this.asked === asked) this.#fail(error);
    }
  }

  /** The request of a story that was listed. */
  titleOf(run) {
    return this.titles.get(run);
  }

  #show({ stories, count, bytes }, start) {
    for (const { run, title } of stories) this.titles.set(run, title);
    const items = stories.map((story) => this.#item(story));
    if (start) this.list.append(...items);
    else this.list.replaceChildren(...items);
    const values = { count, size: size(bytes) };
    setText(this.total, count ? say("Stories: {count}. All stories use {size}.", values) : say("No story was found."));
    show(this.more, this.list.children.length < count);
  }

  #fail(error) {
    setText(this.total, error.message);
  }

  #item(story) {
    const image = story.picture
      ? make("img", "it-story-image", { alt: "", loading: "lazy", src: this.requests.thumbnail(story.run, story.picture, THUMBNAIL) })
      : make("span", "it-story-image");
    const facts = [heard(counted(story.steps)), size(story.bytes), day(story.changed, this.acts.language())];
    const about = make("div", "it-story-about", {}, make("p", "it-story-title", { title: story.title }, story.title));
    about.append(make("p", "it-quiet", {}, story.problem ? facts.slice(1).join(" · ") : facts.join(" · ")));
    const open = story.incomplete_steps ? heard(`${counted(story.incomplete_steps)} not complete`) : story.problem;
    if (open) about.append(make("p", "it-story-open", {}, open));
    const buttons = make("div", "it-story-buttons");
    const item = make("li", "it-story", {}, image, about);
    const help = say("The same story with another cast, style or size: put a copy on the canvas, of which only what you change is generated again.");
    buttons.append(
      textButton(this.acts.label, this.acts.title, () => this.acts.load(story)),
      ...(this.acts.again ? [textButton(say("Vary…"), help, () => this.#again(story))] : []),
      iconButton("pi-trash", say("Delete this story"), () => this.#ask(story, item, buttons)),
    );
    about.append(buttons);
    return item;
  }

  async #again(story) {
    try {
      await this.acts.again(story);
      await this.read();
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Ask before a story is deleted, in the place of its buttons. */
  #ask(story, item, buttons) {
    const question = make("p", "it-story-open", {}, say("Delete all images of this story ({size})?", { size: size(story.bytes) }));
    const asked = make("div", "it-story-buttons");
    asked.append(
      textButton(say("Delete"), "", async () => {
        try {
          await this.requests.deleteStory(story.run);
          await this.read();
        } catch (error) {
          setText(question, error.message);
        }
      }),
      textButton(say("Keep"), "", () => {
        question.remove();
        asked.replaceWith(buttons);
      }),
    );
    buttons.replaceWith(question, asked);
    item.scrollIntoView({ block: "nearest" });
  }
}
