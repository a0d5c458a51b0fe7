// Full-size view: the attempts of a story one after the other, or two images of a step with a dividing line.
//
// It is the browser's modal dialog, so Escape closes it, nothing behind it can be focused, and the focus returns afterwards. One
// dialog serves all nodes; full-size images are fetched only here.

import { heard, say } from "../words.js";
import { Compare } from "./compare.js";
import { iconButton, make, set, setText, show } from "./elements.js";
import { Paint } from "./paint.js";

class Lightbox {
  constructor() {
    this.title = make("p", "it-lightbox-title");
    this.title.setAttribute("aria-live", "polite");
    this.both = iconButton("pi-arrows-h", say("Compare two images"), () => this.#compare(this.compare.element.hidden));
    this.own = make("a", "it-button it-icon", { target: "_blank", rel: "noopener", title: say("Open the file in a new tab") });
    this.own.setAttribute("aria-label", this.own.title);
    this.own.append(make("i", "pi pi-external-link", { ariaHidden: "true" }));
    this.closing = iconButton("pi-times", say("Close"), () => this.dialog.close());
    this.before = iconButton("pi-chevron-left", say("Previous attempt"), () => this.#go(-1));
    this.after = iconButton("pi-chevron-right", say("Next attempt"), () => this.#go(1));
    this.saving = iconButton("pi-download", say("Save this image"), () => this.#save());
    this.image = make("img", "it-lightbox-image", { alt: "" });
    this.compare = new Compare(() => "", {});
    this.paint = new Paint((request) => this.redraw(request), () => this.dialog.close(), () => this.#paint(false));
    this.painting = iconButton("pi-pencil", say("Paint a mask: generate only a part of this image again"), () => this.#paint(!this.paint.isOpen));
    this.frame = make("div", "it-lightbox-frame", {}, this.image, this.paint.canvas);
    this.stage = make("div", "it-lightbox-stage", {}, this.before, this.frame, this.compare.element, this.after);
    this.caption = make("p", "it-lightbox-caption");
    this.dialog = make(
      "dialog",
      "it-live it-lightbox",
      {},
      make("header", "it-lightbox-head", {}, this.title, this.painting, this.both, this.saving, this.own, this.closing),
      this.stage,
      this.paint.tools,
      this.caption,
    );
    this.dialog.setAttribute("aria-label", say("Image in full size"));
    // Keep the front end's shortcuts from acting while the dialog is open.
    for (const kind of ["keydown", "keyup", "keypress", "paste", "copy"])
      this.dialog.addEventListener(kind, (event) => event.stopPropagation());
    this.dialog.addEventListener("keydown", (event) => this.#key(event));
    this.dialog.addEventListener("click", (event) => event.target === this.dialog && this.dialog.close());
    this.dialog.addEventListener("wheel", (event) => event.stopPropagation(), { passive: true });
    this.dialog.addEventListener("close", () => {
      this.image.removeAttribute("src");
      this.opener?.focus?.({ preventScroll: true });
    });
  }

  /** Show `slides[index]`, each {step, name, attempt, image, options}; `options` are the images to compare. `redraw(request)`, if
   *  given, generates the painted part of an image again. */
  open(slides, index, { pictures, compare = false, preferred, redraw } = {}) {
    Object.assign(this, { slides, index, pictures, redraw });
    this.compare.pictureUrl = (digest) => pictures.full(digest);
    this.opener = document.activeElement;
    if (!this.dialog.isConnected) document.body.append(this.dialog);
    if (!this.dialog.open) this.dialog.showModal();
    this.preferred = preferred;
    this.#compare(compare);
    (compare ? this.compare.slider : this.after).focus();
  }

  #compare(wanted) {
    const { options, label } = this.slides[this.index];
    const compares = wanted && options.length > 1;
    show(this.both, options.length > 1);
    this.both.setAttribute("aria-pressed", String(compares));
    if (compares) this.compare.offer(this.slides[this.index].step, options, this.preferred ?? label);
    this.compare.show(compares);
    show(this.frame, !compares);
    this.#paint(false);
    for (const button of [this.before, this.after]) show(button, !compares && this.slides.length > 1);
    this.#draw();
  }

  /** Paint on the image, or stop painting. */
  #paint(wanted) {
    const slide = this.slides[this.index];
    if (wanted) this.paint.open({ ...slide, prompt: slide.isClipped ? "" : slide.caption });
    else this.paint.close();
    this.painting.setAttribute("aria-pressed", String(wanted));
    show(this.painting, Boolean(this.redraw) && this.compare.element.hidden);
    show(this.caption, !wanted);
  }

  #go(by) {
    this.#at((this.index + by + this.slides.length) % this.slides.length);
  }

  /** Go to the kept image of the step before or after. */
  #goStep(by) {
    const steps = [...new Set(this.slides.map(({ step }) => step))];
    const at = steps.indexOf(this.slides[this.index].step);
    const step = steps[(at + by + steps.length) % steps.length];
    const kept = this.slides.findIndex((one) => one.step === step && one.kept);
    this.#at(kept >= 0 ? kept : this.slides.findIndex((one) => one.step === step));
  }

  #at(index) {
    this.index = index;
    this.preferred = undefined;
    this.#compare(false);
  }

  #draw() {
    const slide = this.slides[this.index];
    const url = this.pictures.full(slide.image.digest);
    setText(this.title, slide.title);
    setText(this.caption, slide.caption);
    set(this.image, "src", new URL(url, location.href).href);
    set(this.image, "alt", slide.title);
    set(this.own, "href", new URL(url, location.href).href);
  }

  /** Download the image under a name that says which it is; in the run's folder it has its digest. */
  async #save() {
    const { step, attempt, image } = this.slides[this.index];
    const answer = await fetch(this.pictures.full(image.digest));
    const name = say("step {step}, attempt {number}", { step, number: attempt + 1 });
    const link = make("a", "", { href: URL.createObjectURL(await answer.blob()), download: `${name}.png` });
    link.click();
    URL.revokeObjectURL(link.href);
  }

  #key(event) {
    // In the comparison, the arrow keys move the line.
    if (!this.compare.element.hidden || this.paint.isOpen || event.altKey || event.ctrlKey || event.metaKey) return;
    const acts = {
      ArrowLeft: () => this.#go(-1),
      ArrowRight: () => this.#go(1),
      ArrowUp: () => this.#goStep(-1),
      ArrowDown: () => this.#goStep(1),
      Home: () => this.#at(0),
      End: () => this.#at(this.slides.length - 1),
    };
    if (!acts[event.key]) return;
    acts[event.key]();
    event.preventDefault();
  }
}

let lightbox;

/** Open images in full size; see Lightbox.open. */
export function openPictures(slides, index, how) {
  if (!slides.length || index < 0) return;
  // Rebuilt for every opening, so its texts have the current language.
  if (!lightbox?.dialog.open) {
    lightbox?.dialog.remove();
    lightbox = new Lightbox();
  }
  lightbox.open(slides, index, how);
}

/** All images of a run in order, as slides. */
export function slidesOf(state, optionsOf) {
  return state.order.flatMap((step) => {
    const shown = state.steps.get(step);
    const attempts = (state.attempts.get(step) ?? []).filter((attempt) => attempt?.image);
    const options = optionsOf(step);
    return attempts.map((attempt) => {
      const label = say("Attempt {number}", { number: attempt.attempt + 1 });
      const outcome = attempt.status === "done" ? heard(attempt.outcome || "not judged") : "";
      const kept = shown?.chosen === attempt.attempt;
      return {
        step,
        attempt: attempt.attempt,
        image: attempt.image,
        kept,
        label,
        options,
        title: [`${step}. ${shown?.name ?? ""}`, label, outcome, kept ? say("kept") : ""].filter(Boolean).join(" · "),
        isClipped: attempt.clipped,
        caption: attempt.prompt.filter(([kind]) => kind !== "del").map(([, text]) => text).join(""),
      };
    });
  });
}
