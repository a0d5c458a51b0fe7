// Heights of a step's attempts and comparison: both whole if there is room, else the attempts scroll above the comparison, which
// is always fully visible.
//
// They are measured, since the texts above have any length. In a view too low for both, they are below each other and scroll
// together, with a comparison as high as the view.

const NAMES_HEIGHT = 48; // above and below the compared images
const MIN_LIST = 110; // of the attempts: the first lines
const MIN_FRAME = 110; // below this height an image is too small to see
const MIN_ROOM = 220;
const SHARE = 0.38; // minimum share of the step's height for the comparison

/** Sets the heights in `detail`, with the list of attempts and the comparison below it. */
export class Room {
  constructor(detail, list, compare) {
    Object.assign(this, { detail, list, compare });
    this.watch = new ResizeObserver(() => this.share());
    for (const part of [detail, list]) this.watch.observe(part);
    // An unfolded attempt, or one with a new image, is higher, while the list keeps its height.
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
    const above = list.offsetTop - detail.offsetTop;
    const rest = whole - above - gaps - NAMES_HEIGHT;
    const left = rest - list.scrollHeight;
    const frame = Math.max(left, MIN_FRAME, Math.min(SHARE * whole, rest - MIN_LIST));
    const fits = !compare.hidden && rest - frame >= MIN_LIST;
    list.style.maxHeight = fits ? `${rest - frame}px` : "";
    const room = fits ? frame : left >= MIN_FRAME ? left : Math.max(MIN_ROOM, whole - NAMES_HEIGHT);
    compare.style.setProperty("--it-room", `${room}px`);
  }

  /** Scroll an attempt into view, if the attempts scroll. */
  bring(item) {
    this.brought = item;
    if (!item) return;
    const { list } = this;
    list.scrollTop = Math.min(item.offsetTop, item.offsetTop + item.offsetHeight - list.clientHeight);
  }
}
