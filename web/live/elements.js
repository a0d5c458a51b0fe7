// Creates DOM elements. Text is set as text, never as markup: prompts and the critic's text may come from strangers.

/** An element with a class, properties, and children (elements or texts). */
export function make(tag, className = "", properties = {}, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  Object.assign(element, properties);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  // An image that did not come, as while the server restarts, is requested again by the next update.
  if (tag === "img") element.addEventListener("error", () => element.removeAttribute("src"));
  return element;
}

/** Give an element a role and a name for screen readers. */
export function named(element, role, label) {
  element.setAttribute("role", role);
  element.setAttribute("aria-label", label);
}

/** Set a property only if it differs, so the browser does not touch an unchanged element. */
export function set(element, name, value) {
  if (element[name] !== value) element[name] = value;
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function show(element, visible) {
  if (element.hidden === visible) element.hidden = !visible;
}

/** An icon of the host's icon font with an accessible name. */
export function iconButton(icon, label, onclick) {
  const button = make("button", "it-button it-icon", { type: "button", title: label, onclick });
  button.setAttribute("aria-label", label);
  const image = make("i", `pi ${icon}`);
  image.setAttribute("aria-hidden", "true");
  button.append(image);
  return button;
}

export function textButton(label, title, onclick) {
  return make("button", "it-button", { type: "button", title, onclick }, label);
}

/** A prompt with marked changes: pairs of "same", "ins" or "del" and a text. A space parts a removed text from the one in its place. */
export function marked(pieces) {
  const isChange = ([kind]) => kind === "ins" || kind === "del";
  return pieces.flatMap((piece, index) => {
    const [kind, text] = piece;
    if (!isChange(piece)) return [text];
    const runsOn = index && isChange(pieces[index - 1]) && /\S$/.test(pieces[index - 1][1]) && /^\S/.test(text);
    return [runsOn ? " " : "", make(kind, "", {}, text)];
  });
}

/** A button that is an image; its accessible name is set by the caller. */
export function picture(className, onclick, ...children) {
  return make("button", `it-picture ${className}`, { type: "button", onclick }, ...children);
}

/** Keep a wheel event from the graph if the element can scroll. */
export function keepWheel(event, element) {
  if (event.ctrlKey || event.metaKey) return;
  const along = element.scrollHeight > element.clientHeight || element.scrollWidth > element.clientWidth;
  if (along) event.stopPropagation();
}
