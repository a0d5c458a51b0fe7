// The cast in Edit Plan: a table of its members, and for every step who is in it.

import { icon, make } from "./plan_elements.js";
import { addressOf } from "./plan_images.js";
import { say } from "./words.js";

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

/** Who is in a step, as buttons: {element, update(members, found)}. Without a list of its own, a step has those whom the server
 *  `found` in its prompt: {names, marked}. `edited()` is called after a change. */
export function stepCast(step, edited) {
  const element = make("div", "itp-present");
  let shown = "";

  function update(members, found) {
    const isShown = Boolean(step.prompt) && (members.length > 0 || step.cast?.length > 0);
    element.hidden = !isShown;
    const names = step.cast ?? found?.names ?? [];
    // Buttons that are replaced during a run would lose the focus, and a click that has begun.
    const state = isShown ? JSON.stringify([members.map(({ name }) => name), step.cast, found]) : "";
    if (state === shown) return;
    shown = state;
    if (!isShown) return element.replaceChildren();
    const present = new Set(names.map(lower));
    const isProposed = !step.cast && !found?.marked;
    const known = new Set(members.map(({ name }) => lower(name)));
    const unknown = (step.cast ?? []).filter((name) => !known.has(lower(name))).map((name) => ({ name, isUnknown: true }));
    const set = (list) => {
      if (list) step.cast = list;
      else delete step.cast;
      edited();
      update(members, found);
    };
    const toggle = (name) => {
      const others = names.filter((one) => lower(one) !== lower(name));
      set(others.length < names.length ? others : [...names, name]);
      [...element.querySelectorAll("button")].find((one) => one.textContent === name)?.focus();
    };
    const rebuilt = [...members, ...unknown].map((member) => chip(member, present.has(lower(member.name)), isProposed, toggle));
    if (step.cast) rebuilt.push(icon("pi-undo", say("Members that the prompt names"), () => set(undefined)));
    else if (isProposed && names.length) rebuilt.push(icon("pi-check", say("Keep these members as the list of the step"), () => set(names)));
    element.replaceChildren(...rebuilt);
  }

  return { element, update };
}

function chip({ name, isUnknown }, isPresent, isProposed, onClick) {
  const element = make("button", `itp-chip${isUnknown ? " itp-wrong" : isProposed && isPresent ? " itp-proposed" : ""}`, name);
  const left = isProposed ? say("Found in the prompt. Click to leave it out.") : say("Is in this step. Click to leave it out.");
  const help = isPresent ? left : say("Is not in this step. Click to add it.");
  Object.assign(element, { type: "button", title: isUnknown ? say("Not in the cast") : help });
  element.setAttribute("aria-pressed", String(isPresent));
  element.addEventListener("click", () => onClick(name));
  return element;
}

function lower(name) {
  return name.toLowerCase();
}
