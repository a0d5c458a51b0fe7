// The line of text that a node shows while it works: in the language of the front end, and no part of the graph.
//
// Decision: the host puts that line into a widget of its own and then sends the widget's text with the next prompt, as if it
// were an input. The node would count as changed and run again on every second queue, which for an agent takes minutes.

import { app } from "../../scripts/app.js";
import { heard } from "./words.js";

const OURS = /^Interleave/;
const SHOWN_ONLY = /^\$\$/;

app.registerExtension({
  name: "InterleaveThinker.ProgressText",

  nodeCreated(node) {
    if (!OURS.test(node.comfyClass ?? "") || !node.addCustomWidget) return;
    const add = node.addCustomWidget;
    node.addCustomWidget = function (widget) {
      if (SHOWN_ONLY.test(widget.name ?? "")) {
        const { setValue } = (widget.options ??= {});
        widget.options.serialize = false;
        if (setValue) widget.options.setValue = (value) => setValue(typeof value === "string" ? heard(value) : value);
      }
      return add.call(this, widget);
    };
  }
});
