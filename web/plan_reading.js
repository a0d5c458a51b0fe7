// Only the server parses a plan text, so the list shows the same errors as a queued graph.

import { api } from "../../scripts/api.js";
import { say } from "./words.js";

const READ = "/interleave-thinker/plan";

/** The text as steps, in both forms and with its findings, or its `error`. The `request` and the planner's `style` are for the
 *  findings. `cast` are the members outside of the text, null if there are none. */
export async function readPlan(text, request = "", style = "", cast = null) {
  try {
    const answer = await api.fetchApi(READ, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ text, request, style, cast })
    });
    if (answer.status === 413) return { error: say("The plan is too long for the list. Edit it as text.") };
    return await answer.json();
  } catch (error) {
    return { error: say("The server cannot read the text: {fault}", { fault: error.message }) };
  }
}
