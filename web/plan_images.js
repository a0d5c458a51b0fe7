// The image of a step: a file in the host's input folder, chosen from the list, uploaded, or dropped here.

import { api } from "../../scripts/api.js";
import { icon, make } from "./plan_elements.js";
import { say } from "./words.js";

const NAMES = "/interleave-thinker/step-images";
const UPLOAD = "/upload/image";
const OFFERED = "itp-step-images";

/** The control for one image, with its field's `label`; calls `set(name)` with the name, undefined for none. */
export function imageControl(label, value, set) {
  const image = make("img", "itp-image");
  Object.assign(image, { alt: "", decoding: "async" });
  const input = make("input");
  Object.assign(input, { type: "text", value: value ?? "", placeholder: say("Image in the input folder, or drop a file") });
  Object.assign(input, { spellcheck: false, autocomplete: "off" });
  input.setAttribute("aria-label", label);
  input.setAttribute("list", OFFERED);
  const file = make("input");
  Object.assign(file, { type: "file", accept: "image/*", hidden: true });
  const control = make("span", "itp-image-control");
  const clear = icon("pi-times", say("Remove it"), () => choose(""));

  function show(fault = "") {
    const name = input.value.trim();
    clear.disabled = !name;
    image.hidden = true;
    input.classList.toggle("itp-wrong", Boolean(fault));
    input.title = fault || name;
    if (name && !fault) image.src = addressOf(name);
    else image.removeAttribute("src");
  }

  function choose(name) {
    input.value = name;
    show();
    set(name.trim() || undefined);
  }

  async function upload(given) {
    const body = new FormData();
    body.append("image", given);
    try {
      const answer = await api.fetchApi(UPLOAD, { method: "POST", body });
      if (!answer.ok) throw new Error(say("The server answered {status}.", { status: answer.status }));
      const { name, subfolder } = await answer.json();
      choose(subfolder ? `${subfolder}/${name}` : name);
    } catch (error) {
      show(error.message);
    }
  }

  image.addEventListener("load", () => (image.hidden = false));
  image.addEventListener("error", () => input.value.trim() && show(say("This image is not in the input folder.")));
  input.addEventListener("focus", offerNames);
  input.addEventListener("input", () => {
    show();
    set(input.value.trim() || undefined);
  });
  file.addEventListener("change", () => file.files[0] && upload(file.files[0]));
  // The front end would open a dropped image as a workflow or a new node.
  for (const kind of ["dragenter", "dragover", "drop"])
    control.addEventListener(kind, (event) => {
      event.preventDefault();
      event.stopPropagation();
      control.classList.toggle("itp-over", kind !== "drop");
      const dropped = kind === "drop" && [...(event.dataTransfer?.files ?? [])].find((one) => one.type.startsWith("image/"));
      if (dropped) upload(dropped);
    });
  control.addEventListener("dragleave", () => control.classList.remove("itp-over"));
  control.append(image, input, icon("pi-upload", say("Upload an image"), () => file.click()), clear, file);
  show();
  return control;
}

/** The address of a small copy of an image in the input folder. */
export function addressOf(name) {
  const path = name.replace(/ \[input\]$/, "").split("/");
  const query = { filename: path.pop(), subfolder: path.join("/"), type: "input", preview: "webp;80" };
  return api.apiURL(`/view?${new URLSearchParams(query)}`);
}

/** Update the names offered by all fields. */
async function offerNames() {
  let list = document.getElementById(OFFERED);
  if (!list) {
    list = make("datalist");
    list.id = OFFERED;
    document.body.append(list);
  }
  const answer = await api.fetchApi(NAMES, { cache: "no-store" }).catch(() => undefined);
  if (!answer?.ok) return; // a name can still be typed
  const { names } = await answer.json();
  list.replaceChildren(...names.map((name) => Object.assign(make("option"), { value: name })));
}
