// The words of the pack in the browser, in the language that the front end is set to (Comfy.Locale).
//
// Decision: the English text is the key. A word that a language lacks is shown in English, the code stays readable, and
// one small file is fetched instead of every language. The host merges `locales/*/main.json` of all packs into its own
// messages, but gives extensions no way to read them. What the server says comes as an English line; it is looked up by
// its pattern, so a run that was recorded under one language is read in another.

import { app } from "../../scripts/app.js";
import { language as chosenLanguage } from "./host.js";
import { ENGLISH, resolved } from "./languages.js";

const PLACE = /\{(\w+)\}/g;
const NUMBER = "[\\d.,%/]+";
// What stands in these places is a stranger's text and stays as it is; `rest`, `part` and `count` are looked up themselves.
const VERBATIM = ["text"];
const LOOKED_UP = ["rest", "part", "count"];

let language = ENGLISH;
let ours = {};
let patterns = [];

/** A text of ours; `{name}` in it takes the value of that name. */
export function say(text, values = {}) {
  return filled(ours[text] ?? text, values);
}

/** A line of the server in our language; as it is where no pattern fits. */
export function heard(line) {
  for (const { pattern, names, text } of patterns) {
    const match = line.match(pattern);
    if (!match) continue;
    const values = names.map((name, index) => [name, LOOKED_UP.includes(name) ? heard(match[index + 1]) : match[index + 1]]);
    return filled(text, Object.fromEntries(values));
  }
  return line;
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

/** Have the words of the front end's language, unless they are here. Without them everything is in English. */
async function fetchWords() {
  const wanted = resolved(chosenLanguage());
  if (wanted === language) return;
  const loaded = wanted === ENGLISH ? {} : await wordsOf(wanted);
  // Words that were not to be had are asked for again with the next graph.
  language = loaded ? wanted : ENGLISH;
  ours = loaded?.view ?? {};
  patterns = Object.entries(loaded?.server ?? {}).map(([key, text]) => ({ ...patternOf(key), text }));
}

/** The content of a language's file; null, and a line that says why, if it is missing or damaged. */
async function wordsOf(wanted) {
  try {
    const answer = await fetch(new URL(`./words/${wanted}.json`, import.meta.url));
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    return await answer.json();
  } catch (error) {
    console.warn(`InterleaveThinker: no words for ${wanted}, ${error.message}`);
    return null;
  }
}

app.registerExtension({
  name: "InterleaveThinker.Words",
  init: fetchWords,
  // Another language chosen: the host makes all nodes of the graph anew.
  beforeConfigureGraph: fetchWords,
});
