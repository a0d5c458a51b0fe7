// Loads the pack's texts in the language of the front end (Comfy.Locale).

import { app } from "../../scripts/app.js";
import { language } from "./host.js";
import { loadWords } from "./words.js";

const load = () => loadWords(language());

app.registerExtension({
  name: "InterleaveThinker.Words",
  init: load,
  // After a change of the language, the host rebuilds all nodes of the graph.
  beforeConfigureGraph: load,
});
