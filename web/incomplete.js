// Warning of the nodes that show or write a story which is not complete.

import { app } from "../../scripts/app.js";
import { warn } from "./host.js";
import { heard, say } from "./words.js";

const NODES = ["InterleaveStoryboard", "InterleaveExport", "InterleaveSaveTrajectory"];
const INCOMPLETE = "interleave_incomplete";

app.registerExtension({
  name: "InterleaveThinker.Incomplete",
  nodeCreated(node) {
    if (!NODES.includes(node.comfyClass)) return;
    const executed = node.onExecuted;
    node.onExecuted = function (output, ...values) {
      executed?.call(this, output, ...values);
      const line = output?.[INCOMPLETE]?.[0];
      if (line) warn(`${this.title}: ${say("This story is not complete.")}`, heard(line));
    };
  },
});
