// Settings of one step in Edit Plan: the image it edits, seed, attempts, size, denoise, negative, mask, reference and LoRA.
//
// They are closed at first, so a plan is easy to read; a step with settings lists them in one line. An empty field uses the
// loop's setting and is not written.

import { button, make } from "./plan_elements.js";
import { imageControl } from "./plan_images.js";
import { loraControls } from "./plan_lora.js";
import { say } from "./words.js";

const NUMBERS = [
  { name: "seed", min: 0, max: 2 ** 48, step: 1 },
  { name: "tries", min: 1, max: 100, step: 1 }
];
const DENOISE = { name: "denoise", min: 0.01, max: 1, step: 0.01 };
const IMAGES = ["mask", "reference"];
const SIZE = /^([0-9]{1,5})x([0-9]{1,5})$/;
const [MIN_SIDE, MAX_SIDE] = [16, 8192];
const opened = new WeakSet();

function labels() {
  const numbers = { seed: say("Seed"), tries: say("Attempts"), size: say("Size"), denoise: say("Denoise") };
  const images = { negative: say("Negative"), mask: say("Mask"), reference: say("Reference") };
  return { source: say("Edits"), ...numbers, ...images, lora: "LoRA", lora_strength: say("LoRA strength") };
}

function helps() {
  return {
    source: say("The image that this step edits."),
    seed: say("Seed of the step's first attempt; later seeds are derived from it."),
    tries: say("Maximum number of attempts of this step. 1: not judged."),
    size: say("Width and height of this step's image in pixels, such as 1024x768."),
    denoise: say("Image to image only: how much of the source image is replaced."),
    negative: say("Negative prompt of this step, for models that use one."),
    mask: say("Part of the image that this step may change: white, or painted in the mask editor."),
    reference: say("A reference image that the model also sees in this step, such as a character."),
    lora: say("A LoRA of this step only, in addition to those of the generator."),
    lora_strength: say("Strength of this step's LoRA. Empty: 1, as trained.")
  };
}

/** The parts of a row: {toggle, summary, panel}. `earlier` are the steps before this one; `edited()` is called after a change. */
export function stepSettings(step, earlier, edited) {
  const panel = make("div", "itp-settings");
  panel.id = `itp-settings-${Math.random().toString(36).slice(2)}`;
  const summary = make("div", "itp-summary");
  const help = say("Settings of this step: source, seed, attempts, size, denoise, negative, mask, reference, LoRA");
  const toggle = button("", help, () => open(panel.hidden));
  toggle.append(make("i", "pi pi-sliders-h"));
  toggle.setAttribute("aria-label", help);
  toggle.setAttribute("aria-controls", panel.id);

  function open(isOpen) {
    panel.hidden = !isOpen;
    if (isOpen) opened.add(step);
    else opened.delete(step);
    toggle.setAttribute("aria-expanded", String(isOpen));
    show();
  }

  function show() {
    const given = Object.entries(step.settings ?? {});
    summary.textContent = given.map(([name, value]) => shown(name, value)).join(" · ");
    summary.hidden = !given.length || !panel.hidden;
    toggle.classList.toggle("itp-given", given.length > 0);
  }

  const set = (name, value) => change({ [name]: value });

  function change(changes) {
    const changed = Object.entries({ ...step.settings, ...changes });
    const settings = Object.fromEntries(changed.filter(([, value]) => value !== undefined));
    if (Object.keys(settings).length) step.settings = settings;
    else delete step.settings;
    show();
    edited();
  }

  const lora = loraControls(step.settings ?? {}, change);
  panel.append(
    field("source", sourceChoice(step, earlier, set)),
    ...NUMBERS.map((one) => field(one.name, number(step, one, set))),
    field("size", size(step, set)),
    field("denoise", number(step, DENOISE, set)),
    field("negative", negative(step, set)),
    field("lora", lora.name),
    field("lora_strength", lora.strength),
    ...IMAGES.map((name) => imageField(step, name, set))
  );
  open(opened.has(step));
  return { toggle, summary, panel };
}

function sources(earlier) {
  return [
    ["", say("as set in the loop")],
    ["previous", say("the step before")],
    ["first", say("the first generated image")],
    ["anchor", say("the request's first image")],
    ["all", say("the step before, sees all images")],
    ["text", say("none, generated from text")],
    ...earlier.filter((one) => one.prompt).map((one) => [one.step_number, stepName(one)])
  ];
}

function stepName(step) {
  const number = say("step {step}", { step: step.step_number });
  return step.step_name ? `${number}: ${step.step_name}` : number;
}

function shown(name, value) {
  if (name === "source") {
    const found = sources([]).find(([one]) => one === value);
    return `${labels().source}: ${found ? found[1] : say("step {step}", { step: value })}`;
  }
  return `${labels()[name]}: ${value}`;
}

function sourceChoice(step, earlier, set) {
  const choice = make("select");
  const own = step.settings?.source ?? "";
  const offered = sources(earlier);
  // A source that is no longer an earlier step stays visible; the server reports the error.
  if (!offered.some(([value]) => value === own)) offered.push([own, say("step {step}", { step: own })]);
  for (const [value, text] of offered) {
    const option = make("option", "", text);
    Object.assign(option, { value: String(value), selected: value === own });
    choice.append(option);
  }
  choice.addEventListener("change", () => {
    const [value] = offered[choice.selectedIndex];
    set("source", value === "" ? undefined : value);
  });
  return choice;
}

function number(step, { name, min, max, step: by }, set) {
  const input = make("input");
  const value = step.settings?.[name] ?? "";
  Object.assign(input, { type: "number", min, max, step: by, value, placeholder: say("as in the loop") });
  input.addEventListener("input", () => {
    const value = input.valueAsNumber;
    input.classList.toggle("itp-wrong", !input.validity.valid);
    if (input.value === "" && input.validity.valid) set(name, undefined);
    else if (input.validity.valid && Number.isFinite(value)) set(name, value);
  });
  return input;
}

function size(step, set) {
  const input = make("input", "itp-short");
  const value = step.settings?.size ?? "";
  Object.assign(input, { type: "text", value, placeholder: say("as in the generator"), spellcheck: false });
  input.addEventListener("input", () => {
    const written = input.value.replace(/\s*[x×*]\s*/i, "x").trim();
    const sides = written.match(SIZE)?.slice(1).map(Number);
    const fits = sides?.every((side) => MIN_SIDE <= side && side <= MAX_SIDE) ?? false;
    input.classList.toggle("itp-wrong", Boolean(written) && !fits);
    if (!written) set("size", undefined);
    else if (fits) set("size", written);
  });
  return input;
}

function negative(step, set) {
  const input = make("input", "itp-two");
  const value = step.settings?.negative ?? "";
  Object.assign(input, { type: "text", value, placeholder: say("as in the generator"), spellcheck: false });
  input.addEventListener("input", () => set("negative", input.value || undefined));
  return input;
}

/** Not a label element, which would use the names of its buttons as the field's name. */
function imageField(step, name, set) {
  const control = imageControl(labels()[name], step.settings?.[name], (value) => set(name, value));
  return field(name, control, "div");
}

function field(name, control, tag = "label") {
  const label = make(tag, "itp-field");
  label.title = helps()[name];
  label.append(make("span", "", labels()[name]), control);
  return label;
}
