// Characters of earlier stories for new ones: the Cast node takes one over with its newest image.

import { app } from "../../scripts/app.js";
import { api } from "../../scripts/api.js";
import { openChooser } from "./chooser.js";
import { connect, disconnect, fill, warn } from "./host.js";
import { make } from "./live/elements.js";
import { contentOf, Requests } from "./live/requests.js";
import { say } from "./words.js";

const NODE = "InterleaveCast";
const LOADER = "LoadImage";
const IMAGES = "images.image";
const THUMBNAIL = 256;

const requests = new Requests(api);
const tell = (error) => warn(say("Characters of earlier stories"), error.message);

/** Copy an image of a run into the input folder, where Load Image finds it; returns its name there. */
async function copied(run, digest, title) {
  const image = await fetch(requests.picture(run, digest));
  const body = new FormData();
  body.append("image", await image.blob(), `${title.replace(/[^\p{L}\p{N}]+/gu, "-")}-${digest.slice(0, 8)}.png`);
  return (await contentOf(await api.fetchApi("/upload/image", { method: "POST", body }))).name;
}

/** Let a node's growing images be these of a run. `title` is the beginning of their names. */
export async function connectImages(node, run, digests, title) {
  disconnect(node, (name) => name.startsWith(IMAGES) && Number(name.slice(IMAGES.length)) >= digests.length);
  for (const [index, digest] of digests.entries()) {
    const input = `${IMAGES}${index}`;
    const connected = node.getInputNode(node.inputs.findIndex((one) => one.name === input));
    const loader = connected?.comfyClass === LOADER ? connected : globalThis.LiteGraph.createNode(LOADER);
    fill(loader, { image: await copied(run, digest, title) });
    if (loader !== connected) {
      loader.pos = [node.pos[0] - (index + 1) * (loader.size[0] + 60), node.pos[1]];
      node.graph.add(loader);
      connect(loader, node, input);
    }
    // The next input grows with the next frame.
    await new Promise(requestAnimationFrame);
  }
}

/** Let a Cast node have the name, kind and traits of a member. */
export function fillMember(node, { name, kind, traits = [] }) {
  fill(node, { name, kind, traits: traits.join("\n") });
}

/** The stored images of a member, oldest first. */
export function digestsOf({ images = [] }) {
  return images.map(({ picture }) => picture).filter(Boolean);
}

function rowOf(node, run, member) {
  const newest = digestsOf(member).at(-1);
  const image = newest
    ? make("img", "it-story-image", { alt: "", loading: "lazy", src: requests.thumbnail(run, newest, THUMBNAIL) })
    : make("span", "it-story-image");
  const about = make("span", "it-story-about", {}, make("b", "", {}, member.name));
  about.append(make("span", "it-quiet", {}, (member.traits ?? []).join(", ")));
  const choose = () => {
    fillMember(node, member);
    connectImages(node, run, digestsOf(member).slice(-1), member.name).catch(tell);
  };
  return { content: [make("span", "it-character", {}, image, about)], choose };
}

/** Open the list of the members of earlier stories, those of newer ones first, each once. */
async function openLibrary(node) {
  const { stories } = await contentOf(await api.fetchApi("/interleave-thinker/casts", { cache: "no-store" }));
  const seen = new Set();
  const isNew = ({ member }) => !seen.has(JSON.stringify(member)) && seen.add(JSON.stringify(member));
  const members = stories.flatMap(({ run, cast }) => cast.map((member) => ({ run, member })));
  const rows = members.filter(isNew).map(({ run, member }) => rowOf(node, run, member));
  const note = rows.length ? say("The node takes over name, traits and newest image.") : say("No earlier story has a cast.");
  openChooser({ title: say("Characters of earlier stories"), note, placeholder: say("Search characters"), rows });
}

app.registerExtension({
  name: "InterleaveThinker.CastLibrary",
  nodeCreated(node) {
    if (node.comfyClass !== NODE) return;
    const button = node.addWidget("button", "interleave_library", null, () => openLibrary(node).catch(tell), { serialize: false });
    button.label = say("From an earlier story");
    button.serialize = false;
  },
});
