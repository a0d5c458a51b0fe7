// Height of the comparison of two images below a step's attempts. Everything scrolls as one; the comparison stays in sight at the
// lower end while there is room for both.
//
// The heights are measured, since the texts above have any length. In a view too low for both, they are below each other, with a
// comparison as high as the view.

const NAMES_HEIGHT = 48; // above and below the compared images
const MIN_LIST = 110; // of what is above: the first lines
const MIN_FRAME = 110; // below this height an image is too small to see
const MIN_ROOM = 220;
const SHARE = 0.38; // minimum share of the step's height for the comparison

/** Sets the height in `detail`, with the list of attempts and the comparison below it. */
export class Room {
  constructor(detail, list, compare) {
    Object.assign(this, { detail, list, compare });
    this.watch = new ResizeObserver(() => this.share());
    for (const part of [detail, list]) this.watch.observe(part);
    // An unfolded attempt, or one with a new image, is higher.
    list.addEventListener("toggle", () => this.share(), { capture: true });
    list.addEventListener("load", () => this.#loaded(), { capture: true });
  }

  #loaded() {
    this.share();
    this.bring(this.brought);
    this.brought = undefined;
  }

  dispose() {
    this.watch.disconnect();
  }

  share() {
    const { detail, list, compare } = this;
    const whole = detail.clientHeight;
    if (!whole) return;
    const gaps = parseFloat(getComputedStyle(detail).rowGap) || 0;
    const left = whole - (list.offsetTop - detail.offsetTop) - gaps - NAMES_HEIGHT - list.scrollHeight;
    const frame = Math.max(left, MIN_FRAME, SHARE * whole);
    const fits = whole - NAMES_HEIGHT - frame >= MIN_LIST || left >= MIN_FRAME;
    compare.style.position = fits ? "sticky" : "static";
    compare.style.setProperty("--it-room", `${fits ? frame : Math.max(MIN_ROOM, whole - NAMES_HEIGHT)}px`);
    // What is brought into sight must not be behind the comparison.
    detail.style.scrollPaddingBottom = `${this.#covered}px`;
  }

  /** Height of the comparison where it lies over the end of what is above. */
  get #covered() {
    return this.compare.style.position === "sticky" ? this.compare.offsetHeight : 0;
  }

  /** Scroll an attempt into view, above the comparison. */
  bring(item) {
    this.brought = item;
    if (!item) return;
    const { detail, list } = this;
    const top = list.offsetTop - detail.offsetTop + item.offsetTop;
    detail.scrollTop = Math.min(top, top + item.offsetHeight - detail.clientHeight + this.#covered);
  }
}
