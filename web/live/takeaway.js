// A finished story to take away: one click writes a film or a picture book of it, and then the button opens the file.

import { say } from "../words.js";
import { make, setText, show, textButton } from "./elements.js";

export class Takeaway {
  /** `write(to)` writes the shown run as "film" or "book", and returns the address of the file. */
  constructor(write) {
    this.write = write;
    this.kinds = {
      film: { words: [say("Film"), say("Make a film of the story (MP4), with cross-fades between its images")], opens: say("Open the film") },
      book: { words: [say("Book"), say("Make a picture book of the story (PDF)")], opens: say("Open the book") },
    };
    for (const [to, kind] of Object.entries(this.kinds)) kind.button = textButton(...kind.words, () => this.#press(to));
    this.said = make("span", "it-quiet");
    this.said.setAttribute("role", "status");
    this.element = make("div", "it-takeaway", { hidden: true }, this.said, this.kinds.film.button, this.kinds.book.button);
  }

  /** Offer the files of a finished story; one with other images needs other files. */
  update(state) {
    const images = state.order.map((step) => state.imageOf(step)?.digest).join(" ");
    show(this.element, state.about.status === "finished" && Boolean(images.trim()));
    const shown = `${state.run} ${images}`;
    if (shown === this.shown) return;
    this.shown = shown;
    setText(this.said, "");
    for (const to of Object.keys(this.kinds)) this.#offer(to, undefined);
  }

  #offer(to, address) {
    const { button, words, opens } = this.kinds[to];
    this.kinds[to].address = address;
    button.disabled = false;
    button.classList.toggle("it-first", Boolean(address));
    setText(button, address ? opens : words[0]);
  }

  async #press(to) {
    const { button, address } = this.kinds[to];
    if (address) return window.open(address, "_blank", "noopener");
    const { shown } = this;
    button.disabled = true;
    setText(this.said, say("Writing the file…"));
    try {
      const written = await this.write(to);
      if (shown === this.shown) this.#offer(to, written);
      setText(this.said, "");
    } catch (error) {
      button.disabled = false;
      setText(this.said, error.message);
    }
  }
}
