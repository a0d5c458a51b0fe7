// The side bar's list of all stories. A story is put on the canvas as a Load Story node with a Storyboard.
//
// Nothing is shown of runs outside output/interleave-thinker.

import { app } from "../../scripts/app.js";
import { api } from "../../scripts/api.js";
import { addNodes, language, sideBar } from "./host.js";
import { Requests } from "./live/requests.js";
import { StoryList } from "./live/story_list.js";
import { say } from "./words.js";

const PARENT = "output/interleave-thinker";

const requests = new Requests(api);

/** Put a story on the canvas: Load Story and a Storyboard that shows it. */
function load(story) {
  const [loader, board] = addNodes(["InterleaveLoadTrajectory", "InterleaveStoryboard"]);
  if (!loader) return;
  const widget = loader.widgets?.find((one) => one.name === "story");
  const name = `${PARENT}/${story.run}`;
  // The list is as old as the page.
  if (Array.isArray(widget?.options?.values) && !widget.options.values.includes(name)) widget.options.values.unshift(name);
  if (widget) widget.value = name;
  loader.connect?.(0, board, "trajectory");
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
        const acts = { load, label: say("Load"), title, language };
        const list = new StoryList(requests, acts);
        element.replaceChildren(list.element);
        list.read();
      },
    });
  },
  /** A template without a story opens with the newest one, the first of the list. */
  loadedGraphNode(node) {
    if (node.comfyClass !== "InterleaveLoadTrajectory") return;
    const widget = node.widgets?.find((one) => one.name === "story");
    const newest = widget?.options?.values?.[0];
    if (newest && widget.value === NO_STORY) widget.value = newest;
  },
});
