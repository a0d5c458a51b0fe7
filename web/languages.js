// The languages that the pack has words in, and which of them a setting means.
//
// Decision: as the front end itself resolves it, so that the labels of a node and what we show inside it are never of two
// languages. Here alone and without the front end's modules, so that node can test it.

export const ENGLISH = "en"; // the keys themselves: it needs no file
export const LANGUAGES = ["es", "fr", "ja", "ko", "pt-BR", "ru", "tr", "zh", "zh-TW"];

const byLowerCase = new Map(LANGUAGES.map((one) => [one.toLowerCase(), one]));

/** The language for a tag such as "zh-TW", "zh-tw" or "zh-HK": itself, else that of its part before the dash, else English. */
export function resolved(tag) {
  const asked = tag.toLowerCase();
  return byLowerCase.get(asked) ?? byLowerCase.get(asked.split("-")[0]) ?? ENGLISH;
}
