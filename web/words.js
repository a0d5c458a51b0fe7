// The pack's texts in the browser, in the language that `loadWords` is given.
//
// The English text is the key. A text that a language lacks is shown in English, the code stays readable, and one small file is
// fetched instead of every language. The host merges `locales/*/main.json` of all packs into its own messages, but extensions
// cannot read them. Lines from the server are English; they are translated by patterns, so a run recorded in one language can be
// shown in another.

import { ENGLISH, resolved } from "./languages.js";

const PLACE = /\{(\w+)\}/g;
const NUMBER = "[\\d.,%/]+";
// Text from strangers in these places stays as it is; `rest`, `part` and `count` are translated themselves.
const VERBATIM = ["text"];
const LOOKED_UP = ["rest", "part", "count"];

let language = ENGLISH;
let ours = {};
let patterns = [];

/** A text in the current language; `{name}` in it is replaced by the value of that name. */
export function say(text, values = {}) {
  return filled(ours[text] ?? text, values);
}

/** A line of the server in the current language; unchanged if no pattern matches. */
export function heard(line) {
  for (const { pattern, names, text } of patterns) {
    const match = line.match(pattern);
    if (!match) continue;
    const values = names.map((name, index) => [name, LOOKED_UP.includes(name) ? heard(match[index + 1]) : match[index + 1]]);
    return filled(text, Object.fromEntries(values));
  }
  return line;
}

/** A number of steps in English, for `heard`. */
export function counted(steps) {
  return steps === 1 ? "1 step" : `${steps} steps`;
}

function filled(text, values) {
  return text.replace(PLACE, (place, name) => values[name] ?? place);
}

function patternOf(key) {
  const names = [...key.matchAll(PLACE)].map(([, name]) => name);
  const parts = key.split(PLACE).map((part, index) => {
    if (index % 2 === 0) return part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    return VERBATIM.includes(part) || LOOKED_UP.includes(part) ? "([^]+?)" : `(${NUMBER})`;
  });
  return { pattern: new RegExp(`^${parts.join("")}$`), names };
}

/** Load the texts of a language such as "fr" or "zh-TW", unless loaded. Without them everything is in English. */
export async function loadWords(tag) {
  const wanted = resolved(tag);
  if (wanted === language) return;
  const loaded = wanted === ENGLISH ? {} : await wordsOf(wanted);
  // Texts that could not be loaded are requested again with the next call.
  language = loaded ? wanted : ENGLISH;
  ours = loaded?.view ?? {};
  patterns = Object.entries(loaded?.server ?? {}).map(([key, text]) => ({ ...patternOf(key), text }));
}

/** The content of a language's file; null, with a line in the console, if it is missing or damaged. */
async function wordsOf(wanted) {
  try {
    const answer = await fetch(new URL(`./words/${wanted}.json`, import.meta.url));
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    return await answer.json();
  } catch (error) {
    console.warn(`InterleaveThinker: cannot load the texts for ${wanted}: ${error.message}`);
    return null;
  }
}
