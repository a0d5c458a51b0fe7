// The LoRA of a step: a file in models/loras, chosen from the host's list or typed, and its strength.

import { api } from "../../scripts/api.js";
import { make } from "./plan_elements.js";
import { say } from "./words.js";

const NAMES = "/models/loras";
const ENDING = ".safetensors";
const OFFERED = "itp-step-loras";
const STRONGEST = 100;

/** The controls of a step's LoRA: {name, strength}. `set(changes)` gets what changed; undefined removes a setting. */
export function loraControls(settings, set) {
  const name = make("input", "itp-two");
  const strength = make("input");
  Object.assign(name, { type: "text", value: settings.lora ?? "", placeholder: say("LoRA in models/loras") });
  Object.assign(name, { spellcheck: false, autocomplete: "off" });
  name.setAttribute("list", OFFERED);
  Object.assign(strength, { type: "number", min: -STRONGEST, max: STRONGEST, step: 0.05, placeholder: "1" });
  Object.assign(strength, { value: settings.lora_strength ?? "", disabled: !settings.lora });

  async function check() {
    const written = name.value.trim();
    const names = written ? await offerNames() : undefined;
    if (written !== name.value.trim()) return; // a later check shows the result
    const isMissing = Boolean(names) && !names.includes(written.replaceAll("\\", "/"));
    name.classList.toggle("itp-wrong", isMissing);
    name.title = isMissing ? say("This LoRA is not in models/loras.") : written;
  }

  name.addEventListener("focus", offerNames);
  name.addEventListener("input", () => {
    const written = name.value.trim() || undefined;
    strength.disabled = !written;
    if (!written) strength.value = "";
    set(written ? { lora: written } : { lora: undefined, lora_strength: undefined });
    check();
  });
  strength.addEventListener("input", () => {
    strength.classList.toggle("itp-wrong", !strength.validity.valid && !strength.validity.stepMismatch);
    if (strength.value === "" && !strength.validity.badInput) set({ lora_strength: undefined });
    else if (Math.abs(strength.valueAsNumber) <= STRONGEST) set({ lora_strength: strength.valueAsNumber });
  });
  check();
  return { name, strength };
}

/** Update the names that the fields offer, and return them. Undefined if the server does not answer: a name can be typed. */
async function offerNames() {
  let list = document.getElementById(OFFERED);
  if (!list) {
    list = make("datalist");
    list.id = OFFERED;
    document.body.append(list);
  }
  const answer = await api.fetchApi(NAMES, { cache: "no-store" }).catch(() => undefined);
  if (!answer?.ok) return undefined;
  const names = (await answer.json()).filter((one) => one.endsWith(ENDING)).map((one) => one.replaceAll("\\", "/"));
  list.replaceChildren(...names.map((one) => Object.assign(make("option"), { value: one })));
  return names;
}
