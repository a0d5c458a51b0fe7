// A plan as an outline, written by the rules of backend/story/plan_editor/outline.py.
//
// It is written here so that the text is up to date with every key press. It is parsed by the server, so the list shows the same
// errors as a queued graph.

const KEYWORDS = { instruction: "do", prompt: "draw", auxiliary_text: "text" };
const SETTINGS = ["source", "seed", "tries", "size", "denoise", "negative", "mask", "reference", "lora", "lora_strength"];
const LOCK = "[locked]";
// Control characters and lone surrogates cannot be shown in a line.
const UNSHOWN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]|[\ud800-\udfff]/u;

/** The text of these steps, as JSON or as an outline. */
export function planText(steps, madeFrom, asJson, style = "", cast = []) {
  return asJson ? planJson(steps, madeFrom, style, cast) : planOutline(steps, madeFrom, style, cast);
}

function planJson(steps, madeFrom, style, cast) {
  const plan = {
    ...(style ? { style } : {}),
    ...(cast.length ? { cast } : {}),
    execution_plan: steps.map(({ locked, ...step }) => (locked ? { ...step, locked } : step))
  };
  if (madeFrom.length) plan.made_from = madeFrom;
  return JSON.stringify(plan, null, 2);
}

function planOutline(steps, madeFrom, style, cast) {
  const blocks = [...cast.map(member), ...steps.map(block)];
  if (style) blocks.unshift(fieldLines("style", style, "").join("\n"));
  if (madeFrom.length) blocks.push(`made from: ${madeFrom.join(" ")}`);
  return blocks.join("\n\n");
}

function block(step) {
  const head = [`${step.step_number}.`, nameText(step.step_name ?? ""), step.locked ? LOCK : ""];
  const lines = [head.filter(Boolean).join(" ")];
  for (const [field, keyword] of Object.entries(KEYWORDS)) {
    const value = step[field];
    if (value !== null && value !== undefined) lines.push(...fieldLines(keyword, value, "   "));
  }
  // A step with a single line would use that line as its prompt.
  if (lines.length === 1) lines.push("   draw:");
  for (const name of SETTINGS) {
    const value = step.settings?.[name];
    if (value === null || value === undefined) continue;
    const shown = name === "source" && Number.isInteger(value) ? `step ${value}` : String(value);
    lines.push(...fieldLines(name, shown, "   "));
  }
  if (step.cast) lines.push(`   cast: ${lineText(step.cast.join(", ") || "-")}`);
  for (const fact of step.facts ?? []) lines.push(`   fact: ${lineText(fact)}`);
  // An item is a text alone if its words decide its kind.
  for (const item of step.checklist ?? []) lines.push(`   check: ${lineText(item.kind ? `[${item.kind}] ${item.text}` : item)}`);
  return lines.join("\n");
}

function member({ name, kind, traits = [], images = [] }) {
  const fields = [...traits.map((one) => ["trait", one]), ...images.map((one) => ["image", one])];
  return [`${kind}: ${lineText(name)}`, ...fields.map(([keyword, value]) => `   ${keyword}: ${lineText(value)}`)].join("\n");
}

function fieldLines(keyword, value, indent) {
  const [first, ...others] = isPlain(value) ? value.split("\n") : [escaped(value)];
  return [`${indent}${keyword}: ${first}`, ...others.map((line) => (line ? `${indent}| ${line}` : `${indent}|`))];
}

function nameText(name) {
  return name === "" ? name : name.toLowerCase().endsWith(LOCK) ? escaped(name) : lineText(name);
}

function lineText(value) {
  return isPlain(value) && !value.includes("\n") ? value : escaped(value);
}

function isPlain(value) {
  const first = value.split("\n", 1)[0];
  return first !== "" && first === first.trim() && !first.startsWith('\\"') && !UNSHOWN.test(value);
}

function escaped(value) {
  const code = (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return `\\${JSON.stringify(value).replace(/[\u007f-\uffff]/g, code)}`;
}
