// Compares two images of a step in one frame, with a line to drag or to move with the arrow keys.

import { say } from "../words.js";
import { iconButton, make, set, show } from "./elements.js";

export class Compare {
  /** `pictureUrl(digest, pixels)` returns an image of at least this width; `open(preferred)` adds a button for the full size. */
  constructor(pictureUrl, { open }) {
    this.pictureUrl = pictureUrl;
    this.left = make("select", "it-select", { title: say("Image on the left"), onchange: () => this.#choose() });
    this.right = make("select", "it-select", { title: say("Image on the right"), onchange: () => this.#choose() });
    for (const select of [this.left, this.right]) select.setAttribute("aria-label", select.title);
    this.under = make("img", "it-compare-image", { alt: "", draggable: false });
    this.over = make("img", "it-compare-image it-compare-over", { alt: "", draggable: false });
    this.slider = make("input", "it-compare-slider", { type: "range", min: 0, max: 100, value: 50, step: "any" });
    this.slider.setAttribute("aria-label", say("Position of the dividing line"));
    this.slider.addEventListener("input", () => this.#move());
    this.slider.addEventListener("keydown", (event) => this.#step(event));
    this.line = make("div", "it-compare-line");
    this.frame = make("div", "it-compare-frame", {}, this.under, this.over, this.line, this.slider);
    const full = open && iconButton("pi-window-maximize", say("Compare in full size"), () => open(this.right.value));
    this.element = make(
      "section",
      "it-compare",
      {},
      make("div", "it-compare-names", {}, this.left, make("span", "it-quiet", {}, say("and")), this.right, full),
      this.frame,
    );
    this.element.setAttribute("aria-label", say("Compare two images"));
    this.options = [];
    this.touched = false;
    this.#move();
    // A larger node needs more pixels.
    this.watch = new ResizeObserver(() => this.#draw());
    this.watch.observe(this.frame);
  }

  dispose() {
    this.watch.disconnect();
  }

  show(visible) {
    show(this.element, visible);
  }

  /** Offer images, each `{name, image}`; the user's selection stays while it exists. */
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
    const pixels = this.frame.clientWidth * (globalThis.devicePixelRatio || 1);
    if (!pixels) return;
    for (const [select, image] of [[this.left, this.over], [this.right, this.under]]) {
      const option = this.options.find(({ name }) => name === select.value);
      if (!option) continue;
      set(image, "src", new URL(this.pictureUrl(option.image.digest, pixels), location.href).href);
      set(image, "alt", option.name);
      if (image !== this.under) continue;
      this.element.style.setProperty("--it-ratio", option.image.width / option.image.height);
      this.frame.style.aspectRatio = `${option.image.width} / ${option.image.height}`;
    }
  }

  /** The browser's own step would be too small to see. */
  #step(event) {
    const by = { ArrowLeft: -2, ArrowDown: -2, ArrowRight: 2, ArrowUp: 2, PageDown: -10, PageUp: 10 }[event.key];
    if (!by) return;
    this.slider.value = Number(this.slider.value) + by;
    this.#move();
    event.preventDefault();
  }

  #move() {
    const share = `${this.slider.value}%`;
    this.slider.setAttribute("aria-valuetext", `${Math.round(this.slider.value)} %`);
    this.over.style.clipPath = `inset(0 ${100 - this.slider.value}% 0 0)`;
    this.line.style.left = share;
  }
}
