// The cast in Edit Plan: a table of its members, and for every step who is in it.

import { icon, make } from "./plan_elements.js";
import { addressOf } from "./plan_images.js";
import { say } from "./words.js";

// The first character of the scripts that write words without spaces between them, as in backend/cast.py.
const UNSPACED = "\u2e80";

function kinds() {
  return { character: say("character"), prop: say("prop"), place: say("place") };
}

/** The table of the members; hidden if there are none. */
export function castTable(members) {
  const table = make("div", "itp-cast");
  table.hidden = !members.length;
  table.setAttribute("role", "table");
  table.setAttribute("aria-label", say("Cast"));
  for (const member of members) {
    const row = make("div", "itp-member");
    row.setAttribute("role", "row");
    row.append(thumbnail(member), cell("itp-member-name", member.name), cell("itp-member-kind", kinds()[member.kind] ?? member.kind));
    const traits = cell("itp-member-traits", (member.traits ?? []).join(", "));
    traits.title = traits.textContent;
    row.append(traits);
    table.append(row);
  }
  return table;
}

function cell(name, text) {
  const element = make("span", name, text);
  element.setAttribute("role", "cell");
  return element;
}

function thumbnail({ name, images = [], thumbnail: small }) {
  const newest = images.at(-1);
  const address = newest ? addressOf(newest) : small;
  if (!address) return make("span", "itp-member-image itp-no-image", name.slice(0, 1).toUpperCase());
  const image = make("img", "itp-member-image");
  Object.assign(image, { src: address, alt: "", decoding: "async" });
  image.addEventListener("error", () => image.replaceWith(thumbnail({ name })));
  return image;
}

/** Who is in a step, as buttons: {element, update(members, style)}. Without a list of its own, a step has the members that its
 *  prompt names. `edited()` is called after a change. */
export function stepCast(step, edited) {
  const element = make("div", "itp-present");
  let shown = "";

  function update(members, style) {
    const isShown = Boolean(step.prompt) && (members.length > 0 || step.cast?.length > 0);
    element.hidden = !isShown;
    // Buttons that are replaced during a run would lose the focus, and a click that has begun.
    const state = isShown ? JSON.stringify([members.map(({ name }) => name), step.cast, step.prompt, style]) : "";
    if (state === shown) return;
    shown = state;
    if (!isShown) return element.replaceChildren();
    const present = new Set((step.cast ?? named(members, `${style} ${step.prompt}`)).map(lower));
    const known = new Set(members.map(({ name }) => lower(name)));
    const unknown = (step.cast ?? []).filter((name) => !known.has(lower(name))).map((name) => ({ name, isUnknown: true }));
    const rebuilt = [...members, ...unknown].map((member) => chip(member, present.has(lower(member.name)), () => toggle(member.name, members, style)));
    if (step.cast) rebuilt.push(icon("pi-undo", say("Members that the prompt names"), () => set(undefined, members, style)));
    element.replaceChildren(...rebuilt);
  }

  function toggle(name, members, style) {
    const present = step.cast ?? named(members, `${style} ${step.prompt}`);
    const others = present.filter((one) => lower(one) !== lower(name));
    set(others.length < present.length ? others : [...present, name], members, style);
    [...element.querySelectorAll("button")].find((one) => one.textContent === name)?.focus();
  }

  function set(names, members, style) {
    if (names) step.cast = names;
    else delete step.cast;
    edited();
    update(members, style);
  }

  return { element, update };
}

function chip({ name, isUnknown }, isPresent, onClick) {
  const element = make("button", isUnknown ? "itp-chip itp-wrong" : "itp-chip", name);
  const help = isPresent ? say("Is in this step. Click to leave it out.") : say("Is not in this step. Click to add it.");
  Object.assign(element, { type: "button", title: isUnknown ? say("Not in the cast") : help });
  element.setAttribute("aria-pressed", String(isPresent));
  element.addEventListener("click", onClick);
  return element;
}

function lower(name) {
  return name.toLowerCase();
}

/** The names that a text contains as whole words, by the rule of backend/cast.py. */
function named(members, text) {
  return members.map(({ name }) => name).filter((name) => name && patternOf(name).test(text));
}

function patternOf(name) {
  const before = name[0] >= UNSPACED ? "" : "(?<![\\p{L}\\p{N}_])";
  const after = name.at(-1) >= UNSPACED ? "" : "(?![\\p{L}\\p{N}_])";
  return new RegExp(`${before}${name.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&")}${after}`, "iu");
}
