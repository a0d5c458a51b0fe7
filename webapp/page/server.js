// Requests of the page to its server. Those of the live view are the pack's own.

import { Requests, contentOf } from "../web/live/requests.js";
import { say } from "../web/words.js";

const PREFIX = "/interleave-thinker";
const WAIT = 20; // seconds that the server waits for news
const PATIENCE = 60_000; // milliseconds; more than the server waits
const EXPORT_PATIENCE = 900_000;

const api = { fetchApi, apiURL: (path) => path };

export class Server extends Requests {
  constructor() {
    super(api);
  }

  /** What the page offers: models, exports, an example, and defaults. */
  page() {
    return ask("/page", {});
  }

  /** The story that is being generated; answered when it differs from `seen`. */
  board(seen, id, after) {
    return ask("/board", { seen, id, after, wait: seen ? WAIT : 0 });
  }

  /** A run from its folder. Throws the server's error. */
  run(run) {
    return ask("/run", { run });
  }

  start(story) {
    return give("/story", story);
  }

  /** Continue a story; `pause` null keeps its own. */
  again(run, pause) {
    return give("/again", { run, pause });
  }

  cancel(run) {
    return give("/cancel", { run });
  }

  /** The plan of a story, what the plan check finds, and when it waits: {plan, findings, pause}. */
  plan(run) {
    return ask("/plan", { run });
  }

  changePlan(run, text) {
    return give("/plan", { run, text });
  }

  /** Export a story; the answer is {name, bytes}. */
  export(run, to, title) {
    return give("/export", { run, to, title }, EXPORT_PATIENCE);
  }

  exported(run, to) {
    return `${PREFIX}/export?${new URLSearchParams({ run, to })}`;
  }

  picture(run, picture) {
    return `${PREFIX}/picture?${new URLSearchParams({ run, picture })}`;
  }
}

/** As `fetch`, with a deadline; throws that there is no server. */
async function fetchApi(path, options = {}, patience = PATIENCE) {
  try {
    return await fetch(path, { ...options, signal: AbortSignal.timeout(patience) });
  } catch {
    throw new Error(say("The app does not answer. Is it still running?"));
  }
}

async function ask(path, query) {
  return contentOf(await fetchApi(`${PREFIX}${path}?${new URLSearchParams(query)}`, { cache: "no-store" }));
}

async function give(path, body, patience) {
  const headers = { "Content-Type": "application/json" };
  return contentOf(await fetchApi(`${PREFIX}${path}`, { method: "POST", headers, body: JSON.stringify(body) }, patience));
}
