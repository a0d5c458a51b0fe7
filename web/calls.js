// Calls the user when a story waits or has ended: by a sound, and by a mark in the title of the browser tab.

import { app } from "../../scripts/app.js";
import { isSeen, markTitle, setting } from "./host.js";

const SOUND = "InterleaveThinker.Sound";
/** After this many milliseconds of a run, the user may look at something else on the page. */
const LONG = 10_000;
/** Frequency in hertz and start in seconds of each note. */
const NOTES = [[660, 0], [880, 0.18]];
const LOUDNESS = 0.08;
const LENGTH = 0.4;

function play() {
  const audio = new AudioContext();
  for (const [pitch, start] of NOTES) {
    const [from, to] = [audio.currentTime + start, audio.currentTime + start + LENGTH];
    const note = new OscillatorNode(audio, { frequency: pitch });
    const volume = new GainNode(audio, { gain: LOUDNESS });
    volume.gain.setValueAtTime(LOUDNESS, from);
    volume.gain.exponentialRampToValueAtTime(0.0001, to);
    note.connect(volume).connect(audio.destination);
    note.start(from);
    note.stop(to);
    if (start) note.onended = () => audio.close();
  }
}

/** A story waits or has ended; it began at this time of performance.now(). */
export function call(began) {
  if (isSeen() && performance.now() - began < LONG) return;
  markTitle();
  if (setting(SOUND) ?? true) play();
}

app.registerExtension({
  name: "InterleaveThinker.Calls",
  settings: [{ id: SOUND, name: "InterleaveThinker: sound when a story waits or has ended", type: "boolean", defaultValue: true }],
});
