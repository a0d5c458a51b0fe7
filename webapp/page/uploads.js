// Images that a story starts from: chosen or dropped files, scaled down before they are sent.

import { iconButton, make, setText, show } from "../web/live/elements.js";
import { say } from "../web/words.js";

const MOST = 4;
const SIDE = 1536;
const LARGE = 2_000_000; // characters of base64: a photograph is then sent as a JPEG

export class Uploads {
  constructor() {
    this.images = [];
    this.input = make("input", "app-hidden", { type: "file", accept: "image/*", multiple: true, onchange: () => this.#take(this.input.files) });
    this.button = make("label", "it-button app-upload", {}, say("Add images"), this.input);
    this.list = make("ul", "app-images", { hidden: true });
    this.error = make("p", "app-error", { hidden: true });
    this.element = make("div", "", {}, this.list, this.error);
  }

  /** Take files that are dropped or pasted into an element. */
  listenTo(element) {
    element.addEventListener("dragover", (event) => event.preventDefault());
    element.addEventListener("drop", (event) => {
      if (!event.dataTransfer.files.length) return;
      event.preventDefault();
      this.#take(event.dataTransfer.files);
    });
    element.addEventListener("paste", (event) => this.#take(event.clipboardData.files));
  }

  async #take(files) {
    show(this.error, false);
    for (const file of [...files].slice(0, MOST - this.images.length)) {
      try {
        this.images.push(await scaled(file));
      } catch {
        setText(this.error, say("The image {text} cannot be read.", { text: file.name }));
        show(this.error, true);
      }
    }
    this.input.value = "";
    this.#show();
  }

  #show() {
    const items = this.images.map((url) => {
      const remove = iconButton("pi-times", say("Remove it"), () => {
        this.images = this.images.filter((one) => one !== url);
        this.#show();
      });
      return make("li", "", {}, make("img", "", { src: url, alt: "" }), remove);
    });
    this.list.replaceChildren(...items);
    show(this.list, items.length > 0);
    show(this.button, items.length < MOST);
  }
}

/** The image of a file as a data URL, its longer side at most SIDE pixels. */
async function scaled(file) {
  const image = await createImageBitmap(file);
  const factor = Math.min(1, SIDE / Math.max(image.width, image.height));
  const canvas = make("canvas", "", { width: Math.max(1, Math.round(image.width * factor)), height: Math.max(1, Math.round(image.height * factor)) });
  const context = canvas.getContext("2d");
  context.fillStyle = "#fff";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  const png = canvas.toDataURL("image/png");
  return png.length < LARGE ? png : canvas.toDataURL("image/jpeg", 0.92);
}
