// One attempt, collapsible: a summary line, and inside its image, prompt, verdict and buttons.

import { heard, say } from "../words.js";
import { ChecklistView } from "./checklist.js";
import { iconButton, make, marked, picture, set, setText, show, textButton } from "./elements.js";

export class AttemptView {
  /** `acts`: {choose(step, digest), say(feedback), redraw(request)}, asynchronous, the last returns a text; and open(attempt). */
  constructor(state, pictures, acts) {
    Object.assign(this, { state, pictures, acts, touched: false });
    this.dot = make("span", "it-dot");
    this.dot.setAttribute("aria-hidden", "true");
    this.title = make("span", "it-attempt-title");
    this.word = make("span", "it-attempt-word");
    this.kept = make("span", "it-badge", {}, say("kept"));
    const summary = make("summary", "it-summary", {}, this.dot, this.title, this.word, this.kept);
    summary.addEventListener("click", () => (this.touched = true));
    this.image = make("img", "it-image", { alt: "", decoding: "async" });
    this.frame = picture("it-image-frame", () => this.attempt.image && acts.open(this.attempt), this.image);
    this.prompt = make("p", "it-prompt");
    this.enhancedTitle = make("p", "it-label", {}, say("Enhanced prompt"));
    this.enhanced = make("p", "it-prompt");
    this.checklist = new ChecklistView((text, value) => this.#say({ items: this.#itemsWith(text, value) }));
    this.reasoning = make("p", "it-reasoning");
    this.refinedTitle = make("p", "it-label", {}, say("Refined prompt"));
    this.refined = make("p", "it-prompt");
    this.error = make("p", "it-error");
    this.#makeActions();
    const words = make(
      "div",
      "it-words",
      {},
      make("p", "it-label", {}, say("Prompt used")),
      this.prompt,
      this.enhancedTitle,
      this.enhanced,
      this.checklist.element,
      this.reasoningTitle = make("p", "it-label", {}, say("Critic's reasoning")),
      this.reasoning,
      this.refinedTitle,
      this.refined,
      this.error,
      this.actions,
      this.editor,
    );
    this.element = make("details", "it-attempt", {}, summary, make("div", "it-attempt-body", {}, this.frame, words));
    this.item = make("li", "it-try", {}, this.element);
  }

  /** Show the current state; `open` applies until the user folds or unfolds the attempt. */
  update(attempt, { chosen, open }) {
    this.attempt = attempt;
    if (!this.touched) set(this.element, "open", open);
    this.dot.dataset.tone = attempt.tone;
    setText(this.title, nameOf(attempt));
    this.element.setAttribute("aria-label", say("Attempt {number}", { number: attempt.attempt + 1 }));
    setText(this.word, wordOf(attempt, this.state.running));
    show(this.kept, chosen);
    this.#showImage(attempt);
    this.#showPieces(this.prompt, attempt.prompt);
    show(this.enhancedTitle, Boolean(attempt.enhanced));
    show(this.enhanced, Boolean(attempt.enhanced));
    setText(this.enhanced, attempt.enhanced ?? "");
    this.checklist.update(attempt.items ?? [], this.state.wordOn(attempt));
    const reasoning = attempt.reasoning || readable(this.state.wordsOf(attempt));
    show(this.reasoningTitle, Boolean(reasoning));
    show(this.reasoning, Boolean(reasoning));
    setText(this.reasoning, reasoning);
    this.reasoning.classList.toggle("it-live-words", attempt.status === "judging");
    show(this.refinedTitle, attempt.refined.length > 0);
    show(this.refined, attempt.refined.length > 0);
    this.#showPieces(this.refined, attempt.refined);
    show(this.error, Boolean(attempt.error));
    setText(this.error, attempt.error);
    this.#updateActions(attempt, chosen);
  }

  /** Show the latent preview of the image in progress. */
  preview(url) {
    if (this.attempt?.status !== "drawing") return false;
    set(this.image, "src", url);
    show(this.frame, true);
    return true;
  }

  #showImage(attempt) {
    const { image } = attempt;
    if (image) {
      const label = say("Attempt {number} in full size", { number: attempt.attempt + 1 });
      set(this.image, "src", this.pictures.small(image.digest));
      set(this.frame, "title", label);
      this.frame.setAttribute("aria-label", label);
      this.image.style.aspectRatio = `${image.width} / ${image.height}`;
    } else if (attempt.status === "drawing") {
      this.frame.setAttribute("aria-label", say("generating…"));
    }
    set(this.frame, "disabled", !image);
    show(this.frame, Boolean(image) || (attempt.status === "drawing" && Boolean(this.image.getAttribute("src"))));
  }

  #showPieces(element, pieces) {
    const text = JSON.stringify(pieces);
    if (element.pieces === text) return;
    element.pieces = text;
    element.replaceChildren(...marked(pieces));
  }

  #makeActions() {
    this.up = iconButton("pi-thumbs-up", say("This image is right (recorded as feedback for training)"), () => this.#say({ accepted: true }));
    this.down = iconButton("pi-thumbs-down", say("This image is wrong (recorded as feedback for training)"), () => this.#say({ accepted: false }));
    this.better = textButton(say("Better prompt"), say("Write the prompt that should be used instead"), () => this.#edit());
    this.use = textButton("", "", () => this.#choose());
    this.again = textButton(say("Redraw"), say("Generate one more attempt now, with this prompt and another seed"), () => this.#redraw());
    this.note = make("span", "it-quiet");
    this.note.setAttribute("role", "status");
    this.actions = make("div", "it-actions", {}, this.use, this.again, this.better, this.up, this.down, this.note);
    this.text = make("textarea", "it-textarea", { rows: 3, maxLength: 20000, spellcheck: true });
    this.text.setAttribute("aria-label", say("Better prompt"));
    this.caption = make("textarea", "it-textarea", { rows: 1, maxLength: 20000, spellcheck: true });
    this.caption.setAttribute("aria-label", say("Caption"));
    this.captionPart = make("div", "", {}, make("p", "it-label", {}, say("Caption")), this.caption);
    const draw = textButton(say("Redraw with it"), say("Generate one more attempt now with your prompt, which is also recorded as feedback for training"), () =>
      this.#redrawBetter(),
    );
    draw.classList.add("it-first");
    this.save = textButton(say("Save"), say("Record it as feedback for training"), () => this.#saveBetter());
    const leave = textButton(say("Cancel"), say("Discard the changes"), () => this.#fold());
    this.editor = make("div", "it-editor", { hidden: true }, this.text, this.captionPart, make("div", "it-actions", {}, draw, this.save, leave));
    this.editor.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.#fold();
      event.stopPropagation();
    });
  }

  #updateActions(attempt, chosen) {
    const word = this.state.wordOn(attempt);
    // Even without an image, a better prompt can be used for the next attempt.
    const drawn = Boolean(attempt.image);
    show(this.actions, drawn || this.state.isAt(attempt.step));
    for (const button of [this.use, this.again, this.up, this.down, this.save]) show(button, drawn);
    for (const [button, value] of [[this.up, true], [this.down, false]])
      button.setAttribute("aria-pressed", String(word?.accepted === value));
    this.better.setAttribute("aria-pressed", String(Boolean(word?.better_prompt)));
    const picked = this.state.choices[attempt.step];
    const isPicked = picked !== undefined && picked === attempt.image?.digest;
    const shown = this.state.steps.get(attempt.step);
    const isApproved = isPicked && chosen && (shown.approved || !shown.picked);
    const [name, title] = this.#useWords(attempt, isPicked, isApproved);
    setText(this.use, name);
    this.use.title = title;
    set(this.use, "disabled", picked === undefined && chosen && !this.state.running);
    this.use.setAttribute("aria-pressed", String(isPicked));
  }

  /** Name and explanation of the button that uses the attempt. At a pause it continues the story at once. */
  #useWords(attempt, isPicked, isApproved) {
    if (isApproved) return [say("Approved"), say("Withdraw the approval")];
    if (isPicked) return [say("Picked"), say("Let the critic choose again")];
    const waits = this.state.waiting?.step === attempt.step;
    return [say("Use this attempt"), waits ? say("Use this and continue the story") : say("Make it the step's result with the next run")];
  }

  #edit() {
    const word = this.state.wordOn(this.attempt);
    this.text.value = word?.better_prompt ?? (this.attempt.clipped ? "" : this.#prompt());
    const caption = this.#caption();
    // A long caption comes cut: an empty field keeps it.
    this.caption.value = caption.endsWith(" …") ? "" : caption;
    this.caption.placeholder = caption;
    show(this.captionPart, Boolean(caption));
    show(this.editor, true);
    this.text.focus();
    this.editor.scrollIntoView({ block: "nearest" });
  }

  #fold() {
    show(this.editor, false);
    this.better.focus();
  }

  /** The prompt of the attempt, as far as it was sent. */
  #prompt() {
    return this.attempt.prompt.filter(([kind]) => kind !== "del").map(([, text]) => text).join("");
  }

  #caption() {
    return this.state.steps.get(this.attempt.step)?.text ?? "";
  }

  async #saveBetter() {
    if (await this.#say({ better_prompt: this.text.value.trim() || null })) this.#fold();
  }

  #redraw() {
    const { step, image } = this.attempt;
    return this.#doing(() => this.acts.redraw({ step, picture: image.digest }));
  }

  /** Redraw with the user's own prompt, which is also recorded as feedback; without one, with the same prompt. */
  async #redrawBetter() {
    const { step, image, clipped } = this.attempt;
    const text = this.text.value.trim();
    const own = text && (clipped || text !== this.#prompt().trim());
    const done = await this.#doing(() => {
      const feedback = own && image ? this.#word({ better_prompt: text }) : null;
      const said = this.caption.value.trim();
      const caption = said && said !== this.#caption() ? said : null;
      return this.acts.redraw({ step, prompt: text || null, picture: text ? null : (image?.digest ?? null), feedback, caption });
    });
    if (done) this.#fold();
  }

  #say(part) {
    return this.#doing(() => this.acts.say(this.#word(part)));
  }

  /** Feedback replaces earlier feedback on the attempt, so the earlier parts are repeated. */
  #word(part) {
    const before = this.state.wordOn(this.attempt);
    const same = "accepted" in part && before?.accepted === part.accepted;
    const word = {
      step: this.attempt.step,
      attempt: this.attempt.attempt,
      accepted: before?.accepted ?? null,
      better_prompt: before?.better_prompt ?? null,
      note: before?.note ?? null,
      items: before?.items ?? null,
      image: this.attempt.image.digest,
      ...part,
    };
    if (same) word.accepted = null;
    return word;
  }

  /** The user's verdicts on items with one more; the same verdict again withdraws it. */
  #itemsWith(text, value) {
    const before = this.state.wordOn(this.attempt)?.items ?? [];
    const others = before.filter((one) => one.text !== text);
    const same = before.length > others.length && before.find((one) => one.text === text).true === value;
    const items = same ? others : [...others, { text, true: value }];
    return items.length ? items : null;
  }

  #choose() {
    return this.#doing(() => {
      const picked = this.state.choices[this.attempt.step] === this.attempt.image.digest;
      return this.acts.choose(this.attempt.step, picked ? null : this.attempt.image.digest);
    });
  }

  /** One after the other: feedback repeats the earlier one, which is known when that request is answered. */
  #doing(act) {
    this.done = (this.done ?? Promise.resolve()).then(() => this.#tried(act));
    return this.done;
  }

  async #tried(act) {
    try {
      setText(this.note, (await act()) ?? "");
      return true;
    } catch (error) {
      setText(this.note, error.message);
      return false;
    }
  }
}

/** The name of an attempt, in a batch with its place: all images of a batch have one prompt and seed. */
function nameOf(attempt) {
  const parts = [say("Attempt {number}", { number: attempt.attempt + 1 })];
  if (attempt.of > 1) parts.push(say("image {place} of {of}", { place: attempt.place + 1, of: attempt.of }));
  if (attempt.redraw) parts.push(say("redraw"));
  if (attempt.checked) parts.push(say("story check"));
  return parts.join(" · ");
}

/** Whole percent; a rejected image is never rounded up to the threshold that it missed. */
function percentOf(attempt) {
  const missed = attempt.outcome === "rejected" && attempt.probability >= 0.985;
  return missed ? Math.floor(attempt.probability * 10000) / 100 : Math.round(attempt.probability * 100);
}

function wordOf(attempt, running) {
  if (!running && attempt.status !== "done") return say("stopped");
  if (attempt.status === "drawing") return say("generating…");
  if (attempt.status === "judging") return say("judging…");
  const parts = [heard(attempt.outcome || "not judged")];
  if (attempt.probability !== null && attempt.probability !== undefined)
    parts.push(say("{percent} % likely right", { percent: percentOf(attempt) }));
  // An attempt of an imported story has no time.
  if (attempt.reused) parts.push(say("reused"));
  else if (attempt.seconds) parts.push(say("{seconds} s", { seconds: Math.max(0.1, attempt.seconds).toFixed(1) }));
  return parts.join(" · ");
}

/** The critic's text while it is generated: the reasoning without its tags and without the answer. */
function readable(words) {
  const [thought, answer] = words.split("<answer>");
  const text = thought.replace(/<\/?think>/g, "").trim();
  return answer !== undefined && !text ? "…" : text;
}
