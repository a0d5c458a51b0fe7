// Requests of the live view to the server, and the URLs of images.

import { say } from "../words.js";

export class Requests {
  constructor(api) {
    this.api = api;
  }

  /** The newest run of a node; `messages` is empty if there was none since the server started. */
  live(node, workflow) {
    const query = new URLSearchParams({ node });
    if (workflow) query.set("workflow", String(workflow));
    return this.#get(`/interleave-thinker/live?${query}`);
  }

  /** A run from its folder; empty if the folder is not here (a workflow from someone else). */
  run(run) {
    return this.#get(`/interleave-thinker/run?${new URLSearchParams({ run })}`);
  }

  /** A page of all runs, newest first: {stories, count, bytes}. Throws the server's error. */
  async stories(words, start) {
    const answer = await this.api.fetchApi(`/interleave-thinker/stories?${new URLSearchParams({ words, start })}`, { cache: "no-store" });
    return await contentOf(answer);
  }

  /** Copy a run, and return what continues the copy. Throws the server's error. */
  again(run) {
    return this.#post("/interleave-thinker/story-again", { run });
  }

  /** Delete a run with all its images. Throws the server's error. */
  deleteStory(run) {
    return this.#post("/interleave-thinker/delete-story", { run });
  }

  /** Choose an image as a step's result, or (null) return the choice to the critic. Throws the server's error. */
  choose(run, step, picture) {
    return this.#post("/interleave-thinker/choice", { run, step, picture });
  }

  /** Record feedback on an attempt. Throws the server's error. */
  say(run, feedback) {
    return this.#post("/interleave-thinker/feedback", { run, feedback });
  }

  /** Request one more attempt at a step: {step, prompt, picture, feedback}. Throws the server's error. */
  redraw(run, request) {
    return this.#post("/interleave-thinker/redraw", { run, ...request });
  }

  /** Approve what a run waits for, {step, digest}, or skip the step. Throws the server's error. */
  decide(run, waiting, skip) {
    return this.#post("/interleave-thinker/decision", { run, ...waiting, skip });
  }

  /** Write a run as "film" or "book"; the answer is the host's address of the file. Throws the server's error. */
  takeaway(run, to, language) {
    return this.#post("/interleave-thinker/takeaway", { run, to, language });
  }

  /** The URL of a small copy of an image, its longer side `size` pixels or a little more. */
  thumbnail(run, picture, size) {
    return this.api.apiURL(`/interleave-thinker/thumbnail?${new URLSearchParams({ run, picture, size })}`);
  }

  /** The URL of a full-size image. */
  picture(run, digest) {
    const query = new URLSearchParams({
      filename: `${digest}.png`,
      subfolder: `interleave-thinker/${run}/pictures`,
      type: "output",
    });
    return this.api.apiURL(`/view?${query}`);
  }

  async #get(path) {
    const answer = await this.api.fetchApi(path, { cache: "no-store" });
    return answer.ok ? await answer.json() : { messages: [] };
  }

  async #post(path, body) {
    const answer = await this.api.fetchApi(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    return await contentOf(answer);
  }
}

/** The content of an answer; throws the server's error. */
export async function contentOf(answer) {
  const content = await answer.json().catch(() => ({}));
  if (!answer.ok) throw Object.assign(new Error(content.error ?? say("The server answered {status}.", { status: answer.status })), content);
  return content;
}
