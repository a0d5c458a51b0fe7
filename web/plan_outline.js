// A plan as an outline, written by the same rules as backend/plan_editor/outline.py, which alone reads it.
//
// Decision: writing is done here so that the text is up to date the moment a key is pressed; reading is the server's, so
// that a person sees the same refusals in the list as when the graph is queued.

const KEYWORDS = { instruction: "do", prompt: "draw", auxiliary_text: "text" };
const LOCK = "[locked]";
// Control characters, and halves of characters, cannot be shown on a line.
const UNSHOWN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]|[\ud800-\udfff]/u;

/** The text of these steps, as JSON or as an outline. */
export function planText(steps, madeFrom, asJson) {
  return asJson ? planJson(steps, madeFrom) : planOutline(steps, madeFrom);
}

function planJson(steps, madeFrom) {
  const plan = { execution_plan: steps.map(({ locked, ...step }) => (locked ? { ...step, locked } : step)) };
  if (madeFrom.length) plan.made_from = madeFrom;
  return JSON.stringify(plan, null, 2);
}

function planOutline(steps, madeFrom) {
  const blocks = steps.map(block);
  if (madeFrom.length) blocks.push(`made from: ${madeFrom.join(" ")}`);
  return blocks.join("\n\n");
}

function block(step) {
  const head = [`${step.step_number}.`, nameText(step.step_name ?? ""), step.locked ? LOCK : ""];
  const lines = [head.filter(Boolean).join(" ")];
  for (const [field, keyword] of Object.entries(KEYWORDS)) {
    const value = step[field];
    if (value === null || value === undefined) continue;
    const [first, ...others] = isPlain(value) ? value.split("\n") : [escaped(value)];
    lines.push(`   ${keyword}: ${first}`, ...others.map((line) => (line ? `   | ${line}` : "   |")));
  }
  // A step of one line alone would be drawn as that line says.
  if (lines.length === 1) lines.push("   draw:");
  return lines.join("\n");
}

function nameText(name) {
  const plain = name === "" || (isPlain(name) && !name.includes("\n") && !name.toLowerCase().endsWith(LOCK));
  return plain ? name : escaped(name);
}

function isPlain(value) {
  const first = value.split("\n", 1)[0];
  return first !== "" && first === first.trim() && !first.startsWith('\\"') && !UNSHOWN.test(value);
}

function escaped(value) {
  const code = (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return `\\${JSON.stringify(value).replace(/[\u007f-\uffff]/g, code)}`;
}
