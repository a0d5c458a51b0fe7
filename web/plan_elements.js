// Elements of the list in Edit Plan. Texts are set as text, never as HTML, since a plan may come from a stranger.

import { heard } from "./words.js";

export function make(tag, name = "", text = "") {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text) element.textContent = text;
  return element;
}

export function button(text, help, onClick, disabled = false) {
  const element = make("button", "", text);
  Object.assign(element, { type: "button", title: help, disabled });
  element.addEventListener("click", onClick);
  return element;
}

export function icon(name, help, onClick, disabled = false) {
  const element = button("", help, onClick, disabled);
  element.setAttribute("aria-label", help);
  element.append(make("i", `pi ${name}`));
  return element;
}

export function area(value, placeholder, onInput) {
  const element = make("textarea");
  Object.assign(element, { value: value ?? "", placeholder, rows: 1, spellcheck: false });
  element.addEventListener("input", onInput);
  return element;
}

/** The findings of the plan check for a step, or for the whole plan if `step` is null, as lines. */
export function findingLines(findings, step) {
  return findings.filter((one) => one.step === step).map((one) => make("div", "itp-finding", heard(one.message)));
}

export function note(text, name, ...buttons) {
  const element = make("div", name);
  element.append(make("span", "", text), ...buttons);
  return element;
}
