// A dialog with a list to choose from and a search: for what is too much for a menu.

import { make, show } from "./live/elements.js";

/** Open the dialog. `rows`: {content: [elements], choose()} each; a click on one chooses it and closes the dialog. */
export function openChooser({ title, note, placeholder, rows }) {
  const dialog = make("dialog", "it-live it-settings", { onclose: () => dialog.remove() });
  dialog.setAttribute("aria-label", title);
  const items = rows.map(({ content, choose }) => {
    const chosen = () => {
      choose();
      dialog.close();
    };
    return make("li", "", {}, make("button", "it-setting", { type: "button", onclick: chosen }, ...content));
  });
  const search = make("input", "it-search", { type: "search", placeholder });
  search.setAttribute("aria-label", placeholder);
  search.oninput = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const item of items) show(item, words.every((word) => item.textContent.toLowerCase().includes(word)));
  };
  dialog.append(make("h4", "", {}, title), make("p", "it-quiet", {}, note), search, make("ol", "", {}, ...items));
  // Keep the front end's shortcuts from acting while the dialog is open.
  for (const kind of ["keydown", "keyup", "keypress", "paste", "copy", "wheel"])
    dialog.addEventListener(kind, (event) => event.stopPropagation());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  search.focus();
}
