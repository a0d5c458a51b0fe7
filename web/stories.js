// The side bar's list of all stories. A story is put on the canvas as a Load Story node with a Storyboard, or as a copy whose
// plan and cast can be changed.
//
// Nothing is shown of runs outside output/interleave-thinker.

import { app } from "../../scripts/app.js";
import { api } from "../../scripts/api.js";
import { connectImages, digestsOf, fillMember } from "./cast_library.js";
import { addNodes, connect, disconnect, fill, goTo, language, sideBar } from "./host.js";
import { Requests } from "./live/requests.js";
import { StoryList } from "./live/story_list.js";
import { say } from "./words.js";

const LOOP = "InterleaveCriticLoop";
const PLAN = "InterleaveEditPlan";
const CAST = "InterleaveCast";
/** Inputs of Edit Plan and Cast that get other values with another story. */
const FILLED = ["plan", "edits", "request", "cast", "name", "kind", "traits"];
const LOADER = "InterleaveLoadTrajectory";
const BOARD = "InterleaveStoryboard";
const PARENT = "output/interleave-thinker";

const requests = new Requests(api);

/** Put a story on the canvas: Load Story and a Storyboard that shows it. */
function load(story) {
  const [[loader], [board]] = addNodes([[LOADER], [BOARD]]);
  if (!loader) return;
  fill(loader, { story: `${PARENT}/${story.run}` });
  connect(loader, board, "trajectory");
}

/** The node that is connected to an input of another one, if it is of this class. */
function before(node, name, kind) {
  const found = node?.getInputNode(node.inputs.findIndex((one) => one.name === name));
  return found?.comfyClass === kind ? found : undefined;
}

/**
 * Put a copy of a story on the canvas: its cast and plan, before the Critic Loop that is there, else before a new one. An Edit
 * Plan and Cast nodes before that loop are used, since they would show another story than the one that runs.
 */
async function again(story) {
  const told = await requests.again(story.run);
  const isLoop = (node) => node.comfyClass === LOOP;
  const nodes = app.canvas.graph.nodes ?? app.canvas.graph._nodes;
  const present = Object.values(app.canvas.selected_nodes ?? {}).find(isLoop) ?? nodes.find(isLoop);
  const shown = before(present, "plan", PLAN);
  const cast = [];
  for (let one = before(shown, "cast", CAST); one && cast.length < told.cast.length; one = before(one, "cast", CAST)) cast.unshift(one);
  const missing = [told.cast.slice(cast.length).map(() => CAST), shown ? [] : [PLAN], ...(present ? [] : [[LOOP], [BOARD]])];
  const [more, [plan = shown], [loop = present] = [], [board] = []] = addNodes(missing);
  if (!plan) return;
  cast.unshift(...more);
  for (const node of [...cast, plan]) disconnect(node, (name) => FILLED.includes(name));
  // It forgets what it shows of the run before.
  plan.onExecuted?.({});
  fill(plan, { edits: told.plan, request: told.request.text });
  const { seed, seed_rule, source } = told.settings;
  fill(loop, { seed, seed_rule, source });
  connect(plan, loop, "plan");
  if (board) loop.connect("TRAJECTORY", board, "trajectory");
  for (const [number, member] of told.cast.entries()) {
    fillMember(cast[number], member);
    connect(cast[number], cast[number + 1] ?? plan, "cast");
    await connectImages(cast[number], told.run, digestsOf(member), member.name);
  }
  await connectImages(plan, told.run, told.request.images, "image");
  goTo(plan);
}

const NO_STORY = "(no story yet)";

app.registerExtension({
  name: "InterleaveThinker.Stories",
  setup() {
    sideBar({
      id: "interleave-stories",
      icon: "pi pi-images",
      title: say("Stories"),
      tooltip: say("Stories of InterleaveThinker"),
      type: "custom",
      render(element) {
        const title = say("Put Load Story and a Storyboard with this story on the canvas");
        const acts = { load, again, label: say("Load"), title, language };
        const list = new StoryList(requests, acts);
        element.replaceChildren(list.element);
        list.read();
      },
    });
  },
  /** A template without a story opens with the newest one. */
  async loadedGraphNode(node) {
    const isOpen = () => node.widgets?.some((one) => one.name === "story" && one.value === NO_STORY);
    if (node.comfyClass !== LOADER || !isOpen()) return;
    const { stories } = await requests.stories("", 0);
    if (stories.length && isOpen()) fill(node, { story: `${PARENT}/${stories[0].run}` });
  },
});
