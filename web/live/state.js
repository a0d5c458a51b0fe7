// The state of one run, built from messages: the newest of every key counts, so a message that comes twice or late changes nothing.

export class RunState {
  constructor() {
    this.version = 0;
    this.#clear(null);
    this.#forget();
  }

  get isEmpty() {
    return !this.about;
  }

  get run() {
    return this.about?.run ?? "";
  }

  get running() {
    return this.about?.status === "running";
  }

  /** What the run waits for: {step, digest}, see WaitingShown; undefined if it does not wait, or the user has decided. */
  get waiting() {
    return this.running || this.decided ? undefined : (this.about?.waiting ?? undefined);
  }

  /** Step numbers in order. */
  get order() {
    return this.about?.steps ?? [...this.steps.keys()];
  }

  /** Process one message from the server. */
  take(message) {
    if (message.id !== this.id) this.#clear(message.id);
    this.version += 1;
    const shown = message.shown;
    const key = [shown.kind, shown.step ?? "", shown.attempt ?? ""].join(" ");
    if ((this.seen.get(key) ?? -1) >= message.seq) return;
    this.seen.set(key, message.seq);
    if (shown.kind === "run") {
      if (this.notedRun !== shown.run) this.#forget();
      this.notedRun = shown.run;
      this.about = shown;
      this.share = shown.share;
      // What the server said before was about an earlier wait.
      this.decided = false;
    } else if (shown.kind === "step") {
      this.steps.set(shown.step, shown);
      // It is generated from its first attempt again: with a story check, for the second time in this run.
      if (shown.status === "running") this.#forgetAttempts(shown.step);
    } else if (shown.kind === "check") {
      this.check = shown;
    } else if (shown.kind === "attempt") {
      const attempts = this.attempts.get(shown.step) ?? [];
      attempts[shown.attempt] = shown;
      this.attempts.set(shown.step, attempts);
      if (shown.status === "drawing") this.current = shown.step;
    } else if (shown.kind === "words") {
      const words = this.words.get(wordsKey(shown)) ?? "";
      this.words.set(wordsKey(shown), words.slice(0, shown.at) + shown.text);
    }
  }

  /** The run ended during an attempt, and no more messages will come. */
  stop() {
    const line = this.about.line.replace(/: .*$/s, ": stopped");
    this.about = { ...this.about, status: "cancelled", line };
    this.version += 1;
  }

  /** Load a whole state from the server. */
  restore(received) {
    this.#clear(null);
    for (const message of received.messages) this.take(message);
    this.noted(received);
  }

  /** Load the user's choices and feedback from the server. */
  noted(received) {
    this.choices = received.choices ?? {};
    this.redraws = received.redraws ?? {};
    this.decided = received.decided ?? false;
    this.feedback = new Map((received.feedback ?? []).map((word) => [`${word.step} ${word.attempt}`, word]));
    this.version += 1;
  }

  /** Whether the loop is at this step, so that a request is its next attempt. */
  isAt(step) {
    return this.running && this.steps.get(step)?.status === "running";
  }

  /** The attempt in progress; of several, the one that began last. */
  get drawn() {
    for (const step of this.order.toReversed())
      for (const attempt of (this.attempts.get(step) ?? []).toReversed()) if (attempt?.status === "drawing") return attempt;
    return undefined;
  }

  /** Steps whose newest redraw is requested and not generated yet. */
  get redrawsWaiting() {
    return this.order.filter((step) => {
      const drawn = (this.attempts.get(step) ?? []).map((attempt) => attempt?.redraw ?? 0);
      return (this.redraws[step] ?? 0) > Math.max(0, ...drawn);
    });
  }

  wordsOf(attempt) {
    return this.words.get(wordsKey(attempt)) ?? "";
  }

  wordOn(attempt) {
    const word = this.feedback.get(`${attempt.step} ${attempt.attempt}`);
    return word && (!word.image || word.image === attempt.image?.digest) ? word : undefined;
  }

  /** The image of a step: that of the kept attempt, else the newest. */
  imageOf(step) {
    const attempts = this.attempts.get(step) ?? [];
    const chosen = this.steps.get(step)?.chosen;
    const image = chosen === null || chosen === undefined ? undefined : attempts[chosen]?.image;
    return image ?? attempts.findLast((attempt) => attempt?.image)?.image;
  }

  #forgetAttempts(step) {
    this.attempts.delete(step);
    for (const key of this.words.keys()) if (key.startsWith(`${step} `)) this.words.delete(key);
  }

  #clear(id) {
    this.id = id;
    this.check = undefined;
    this.about = null;
    this.share = 0;
    this.current = null;
    this.steps = new Map();
    this.attempts = new Map();
    this.words = new Map();
    this.seen = new Map();
    this.decided = false;
  }

  /** Choices, redraws and feedback belong to one run; for another run they are unknown until the server sends them. */
  #forget() {
    this.notedRun = undefined;
    this.choices = {};
    this.redraws = {};
    this.feedback = new Map();
  }
}

function wordsKey(shown) {
  return `${shown.step} ${shown.attempt}`;
}
