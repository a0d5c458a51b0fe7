// A mask painted over an image in full size: only the painted area is generated again.

import { say } from "../words.js";
import { make, setText, show, textButton } from "./elements.js";

const BRUSH = 0.12; // diameter at first, as a share of the image's shorter side

export class Paint {
  /** `redraw({step, prompt, picture, mask})`: asynchronous; `done()` is called after it, `left()` when the user cancels. */
  constructor(redraw, done, left) {
    Object.assign(this, { redraw, done });
    this.canvas = make("canvas", "it-paint-canvas", { hidden: true });
    this.canvas.setAttribute("aria-label", say("Paint the area that may change"));
    this.canvas.addEventListener("pointerdown", (event) => this.#begin(event));
    this.canvas.addEventListener("pointermove", (event) => event.buttons && this.#stroke(event));
    this.size = make("input", "it-paint-size", { type: "range", min: 2, max: 50 });
    this.size.setAttribute("aria-label", say("Size of the brush"));
    this.text = make("textarea", "it-textarea", { rows: 2, maxLength: 20000, spellcheck: true });
    this.text.setAttribute("aria-label", say("Prompt for the painted area"));
    const clear = textButton(say("Clear"), say("Remove the painted area"), () => this.#clear());
    this.button = textButton(say("Redraw only here"), say("Generate the painted area again; the rest of the image stays"), () => this.#send());
    this.button.classList.add("it-first");
    this.said = make("span", "it-quiet", {}, say("Paint the area that may change"));
    this.said.setAttribute("role", "status");
    const acts = make("div", "it-actions", {}, this.said, this.size, clear, this.button, textButton(say("Cancel"), "", left));
    this.tools = make("div", "it-paint", { hidden: true }, this.text, acts);
  }

  get isOpen() {
    return !this.canvas.hidden;
  }

  /** Begin with an empty mask on a slide of the full-size view. */
  open({ step, image, prompt }) {
    Object.assign(this, { step, image, prompt });
    Object.assign(this.canvas, { width: image.width, height: image.height });
    this.size.value = 100 * BRUSH;
    this.text.value = prompt;
    this.isPainted = false;
    setText(this.said, say("Paint the area that may change"));
    this.#show(true);
  }

  close() {
    this.#show(false);
  }

  #show(isOpen) {
    show(this.canvas, isOpen);
    show(this.tools, isOpen);
    this.button.disabled = !this.isPainted;
  }

  #clear() {
    this.open(this);
  }

  /** Where the pointer is, in pixels of the image, which is shown as large as it fits. */
  #place({ clientX, clientY }) {
    const box = this.canvas.getBoundingClientRect();
    const { width, height } = this.canvas;
    const scale = Math.min(box.width / width, box.height / height);
    return [(clientX - box.left - (box.width - width * scale) / 2) / scale, (clientY - box.top - (box.height - height * scale) / 2) / scale];
  }

  #begin(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.last = this.#place(event);
    this.#stroke(event);
  }

  #stroke(event) {
    const place = this.#place(event);
    const { width, height } = this.canvas;
    const pen = this.canvas.getContext("2d");
    Object.assign(pen, { strokeStyle: "white", lineCap: "round", lineWidth: (this.size.value / 100) * Math.min(width, height) });
    pen.beginPath();
    pen.moveTo(...this.last);
    pen.lineTo(...place);
    pen.stroke();
    this.last = place;
    this.isPainted = true;
    this.button.disabled = false;
  }

  /** The mask as PNG in base64: white where the image may change, black elsewhere. */
  #mask() {
    const { width, height } = this.canvas;
    const mask = make("canvas", "", { width, height });
    const pen = mask.getContext("2d");
    pen.fillRect(0, 0, width, height);
    pen.drawImage(this.canvas, 0, 0);
    return mask.toDataURL("image/png").split(",")[1];
  }

  async #send() {
    const text = this.text.value.trim();
    this.button.disabled = true;
    try {
      // Without a prompt of the user, the server uses that of the image, which may be longer than it is shown.
      await this.redraw({ step: this.step, prompt: text && text !== this.prompt ? text : null, picture: this.image.digest, mask: this.#mask() });
      this.done();
    } catch (error) {
      this.button.disabled = false;
      setText(this.said, error.message);
    }
  }
}
