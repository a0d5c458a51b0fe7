// How high the tries and the comparison of a step are: both whole if there is room, else the tries scroll above the comparison,
// which is always seen whole.
//
// Decision: measured, for the words above are of any length. In a view too low for both they stand one below the other and all of
// it is scrolled, as high a comparison as the view.

const NAMES_HEIGHT = 48; // of what stands over and under the pictures that are compared
const MIN_LIST = 110; // of the tries: their first lines, and that there is more
const MIN_FRAME = 110; // lower than this nothing is seen in a picture
const MIN_ROOM = 220;
const SHARE = 0.38; // of the step's height that the comparison has at least

/** Keeps the heights in `detail`, with the list of tries in it and the comparison below that. */
export class Room {
  constructor(detail, list, compare) {
    Object.assign(this, { detail, list, compare });
    this.watch = new ResizeObserver(() => this.share());
    for (const part of [detail, list]) this.watch.observe(part);
    // A try that is unfolded, or has its picture now, is higher inside a list that stays as it is.
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

  /** Scroll a try to where it is seen, if the tries are scrolled at all. */
  bring(item) {
    this.brought = item;
    if (!item) return;
    const { list } = this;
    list.scrollTop = Math.min(item.offsetTop, item.offsetTop + item.offsetHeight - list.clientHeight);
  }
}
