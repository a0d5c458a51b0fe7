// Before and after in one frame: a line to drag, or to move with the arrow keys, between any two images of a step.

import { say } from "../words.js";
import { make, set, show } from "./elements.js";

export class Compare {
  constructor(pictureUrl) {
    this.pictureUrl = pictureUrl;
    this.left = make("select", "it-select", { title: say("Image on the left"), onchange: () => this.#choose() });
    this.right = make("select", "it-select", { title: say("Image on the right"), onchange: () => this.#choose() });
    this.under = make("img", "it-compare-image", { alt: "", draggable: false });
    this.over = make("img", "it-compare-image it-compare-over", { alt: "", draggable: false });
    this.slider = make("input", "it-compare-slider", { type: "range", min: 0, max: 100, value: 50, step: "any" });
    this.slider.setAttribute("aria-label", say("Where the left image ends"));
    this.slider.addEventListener("input", () => this.#move());
    this.line = make("div", "it-compare-line");
    this.frame = make("div", "it-compare-frame", {}, this.under, this.over, this.line, this.slider);
    this.element = make(
      "section",
      "it-compare",
      {},
      make("div", "it-compare-names", {}, this.left, make("span", "it-quiet", {}, say("and")), this.right),
      this.frame,
    );
    this.options = [];
    this.touched = false;
    this.#move();
  }

  /** Offer images, each `{name, image}`; what a person chose stays chosen while it is there. */
  offer(step, options, preferred) {
    const signature = JSON.stringify([step, options.map(({ name, image }) => [name, image.digest])]);
    if (step !== this.step) this.touched = false;
    show(this.element, options.length > 1);
    if (signature === this.signature && (this.touched || preferred === this.preferred)) return;
    const kept = this.touched ? [this.left.value, this.right.value] : null;
    Object.assign(this, { step, signature, options, preferred });
    for (const select of [this.left, this.right])
      select.replaceChildren(...options.map(({ name }) => make("option", "", { value: name }, name)));
    const names = options.map(({ name }) => name);
    const [left, right] = kept?.every((name) => names.includes(name)) ? kept : [names[0], preferred];
    this.left.value = left;
    this.right.value = names.includes(right) ? right : names.at(-1);
    this.#draw();
  }

  #choose() {
    this.touched = true;
    this.#draw();
  }

  #draw() {
    for (const [select, image] of [[this.left, this.over], [this.right, this.under]]) {
      const option = this.options.find(({ name }) => name === select.value);
      if (!option) continue;
      set(image, "src", this.pictureUrl(option.image.digest));
      set(image, "alt", option.name);
      if (image === this.under) this.frame.style.aspectRatio = `${option.image.width} / ${option.image.height}`;
    }
  }

  #move() {
    const share = `${this.slider.value}%`;
    this.over.style.clipPath = `inset(0 ${100 - this.slider.value}% 0 0)`;
    this.line.style.left = share;
  }
}

