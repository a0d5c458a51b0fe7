// What the view asks of the server, and where pictures are.

import { say } from "../words.js";

export class Requests {
  constructor(api) {
    this.api = api;
  }

  /** The newest run of a node, `messages` empty if there was none since the server started. */
  live(node, workflow) {
    const query = new URLSearchParams({ node });
    if (workflow) query.set("workflow", String(workflow));
    return this.#get(`/interleave-thinker/live?${query}`);
  }

  /** A run as its folder has it; empty if the folder is not here (a workflow from somebody else). */
  run(run) {
    return this.#get(`/interleave-thinker/run?${new URLSearchParams({ run })}`);
  }

  /** Pick an image as a step's result, or (null) leave the step to the critic. Throws what the server refused. */
  choose(run, step, picture) {
    return this.#post("/interleave-thinker/choice", { run, step, picture });
  }

  /** Note a word on an attempt. Throws what the server refused. */
  say(run, feedback) {
    return this.#post("/interleave-thinker/feedback", { run, feedback });
  }

  /** Ask for one more try at a step: {step, prompt, picture, feedback}. Throws what the server refused. */
  redraw(run, request) {
    return this.#post("/interleave-thinker/redraw", { run, ...request });
  }

  /** A small copy of a picture, its longer side `size` pixels or a little more. */
  thumbnail(run, picture, size) {
    return this.api.apiURL(`/interleave-thinker/thumbnail?${new URLSearchParams({ run, picture, size })}`);
  }

  /** A picture as it was drawn. */
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
    const content = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error(content.error ?? say("The server answered {status}.", { status: answer.status }));
    return content;
  }
}
