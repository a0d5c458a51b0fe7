// The languages of the pack's texts, and which of them a setting means.
//
// A setting is resolved as in the front end, so the labels of a node and the texts inside it have the same language. This file
// does not import front-end modules, so node can test it.

export const ENGLISH = "en"; // the keys themselves: no file is needed
export const LANGUAGES = ["es", "fr", "ja", "ko", "pt-BR", "ru", "tr", "zh", "zh-TW"];

const byLowerCase = new Map(LANGUAGES.map((one) => [one.toLowerCase(), one]));

/** The language for a tag such as "zh-TW", "zh-tw" or "zh-HK": itself, else the part before the dash, else English. */
export function resolved(tag) {
  const asked = tag.toLowerCase();
  return byLowerCase.get(asked) ?? byLowerCase.get(asked.split("-")[0]) ?? ENGLISH;
}
